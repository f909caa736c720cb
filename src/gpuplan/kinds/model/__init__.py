"""The models loaded in the Triton servers of a node: loaded and unloaded by name, believed only from the index."""

from gpuplan.kinds.model.apply import apply
from gpuplan.kinds.model.diff import diff
from gpuplan.kinds.model.read import read
from gpuplan.kinds.model.spec import spec
from gpuplan.kinds.room import Room

ROOM = Room("model", ("docker", "triton", "repository", "gpu"), spec, read, diff, apply)

__all__ = ["ROOM"]
