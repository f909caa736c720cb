"""GPUs: MIG mode, slices and settings."""

from gpuplan.resources.gpu.apply.apply import apply_step
from gpuplan.resources.gpu.desired import spec
from gpuplan.resources.gpu.diff import diff
from gpuplan.resources.gpu.read import ObservedGpus, read, slice_uuid
from gpuplan.resources.kind import Kind

__all__ = ["ROOM", "slice_uuid"]

GPU: Kind[ObservedGpus] = Kind("gpu", ("gpu", "docker", "host", "others"), spec, read, diff, apply_step)
