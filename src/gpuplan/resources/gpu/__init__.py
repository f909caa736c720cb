"""GPUs: MIG mode, slices and settings."""

from gpuplan.resources.gpu.apply.apply import apply_step
from gpuplan.resources.gpu.desired import spec
from gpuplan.resources.gpu.diff import diff
from gpuplan.resources.gpu.observed import ObservedGpus
from gpuplan.resources.gpu.read import read
from gpuplan.resources.kind import Kind

GPU: Kind[ObservedGpus] = Kind("gpu", ("gpu", "docker", "host", "others"), spec, read, diff, apply_step)
