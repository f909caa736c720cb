"""The models loaded in the Triton servers of a node: loaded and unloaded by name, believed only from the index."""

from gpuplan.resources.kind import Kind
from gpuplan.resources.model.apply.apply import apply_step
from gpuplan.resources.model.desired import spec
from gpuplan.resources.model.diff import diff
from gpuplan.resources.model.read import read

MODEL = Kind("model", ("docker", "triton", "repository", "gpu"), spec, read, diff, apply_step)

__all__ = ["ROOM"]
