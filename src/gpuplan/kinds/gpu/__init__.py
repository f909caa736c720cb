"""GPUs: MIG mode, slices and settings."""

from gpuplan.kinds.gpu.apply import apply
from gpuplan.kinds.gpu.diff import diff
from gpuplan.kinds.gpu.read import ObservedGpus, read, slice_uuid
from gpuplan.kinds.gpu.spec import spec
from gpuplan.kinds.room import Room

__all__ = ["ROOM", "slice_uuid"]

ROOM: Room[ObservedGpus] = Room("gpu", ("gpu", "docker", "host", "others"), spec, read, diff, apply)
