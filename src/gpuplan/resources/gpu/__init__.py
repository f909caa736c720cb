"""GPUs: MIG mode, slices and settings."""

from gpuplan.resources.gpu.apply import apply
from gpuplan.resources.gpu.diff import diff
from gpuplan.resources.gpu.read import ObservedGpus, read, slice_uuid
from gpuplan.resources.gpu.spec import spec
from gpuplan.resources.kind import Room

__all__ = ["ROOM", "slice_uuid"]

ROOM: Room[ObservedGpus] = Room("gpu", ("gpu", "docker", "host", "others"), spec, read, diff, apply)
