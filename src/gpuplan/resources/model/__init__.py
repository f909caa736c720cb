"""The models loaded in the Triton servers of a node."""

from gpuplan.resources.kind import Kind
from gpuplan.resources.model.apply import apply_step
from gpuplan.resources.model.desired import desired_models
from gpuplan.resources.model.diff import diff
from gpuplan.resources.model.read import read

MODEL = Kind("model", ("docker", "triton", "repository", "gpu"), desired_models, read, diff, apply_step)

__all__ = ["MODEL"]
