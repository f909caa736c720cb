"""From handles to the state: each look-up raises NVML's own error where there is nothing."""

from __future__ import annotations

import pynvml

from gpuplan.nvidia.boards import Profile
from gpuplan.simulator.hardware import board_of
from gpuplan.simulator.nvml.handles import Kind, Meaning
from gpuplan.simulator.state import Compute, Gpu, Instance, NodeState

COMPUTE_SLICES = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7, 5: 8, 6: 6, 7: 1}
"""NVML_COMPUTE_INSTANCE_PROFILE_* → compute slices (nvml.h)."""


def error(code: int) -> Exception:
    """pynvml's exception of this code."""
    raised: Exception = pynvml.NVMLError(code)
    return raised


def gpu_of(state: NodeState, known: Meaning) -> Gpu:
    """The GPU that a handle is of."""
    if known.gpu >= len(state.gpus):
        raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return state.gpus[known.gpu]


def divided(state: NodeState, known: Meaning) -> Gpu:
    """The GPU, which must be in MIG mode."""
    gpu = gpu_of(state, known)
    if not gpu.mig:
        raise error(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return gpu


def instance_of(state: NodeState, known: Meaning) -> Instance:
    """The GPU instance that a handle is of or inside of; a handle of a destroyed one is invalid."""
    for instance in gpu_of(state, known).instances:
        if instance.id == known.instance:
            return instance
    raise error(_gone(known))


def compute_of(state: NodeState, known: Meaning) -> Compute:
    """The compute instance that a handle is of."""
    for compute in instance_of(state, known).computes:
        if compute.id == known.compute:
            return compute
    raise error(_gone(known))


def profile_of(state: NodeState, known: Meaning, profile_id: int) -> Profile:
    """The GPU instance profile of an id on this board."""
    for profile in board_of(gpu_of(state, known)).profiles:
        if profile.id == profile_id:
            return profile
    raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)


def _gone(known: Meaning) -> int:
    mig = known.kind is Kind.MIG_DEVICE
    return int(pynvml.NVML_ERROR_NOT_FOUND if mig else pynvml.NVML_ERROR_INVALID_ARGUMENT)
