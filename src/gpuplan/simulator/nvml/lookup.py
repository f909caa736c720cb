"""From handles to the state; raises NVML's own errors."""

from __future__ import annotations

import ctypes
import enum
from dataclasses import dataclass
from typing import Any

import pynvml

from gpuplan.nvidia.boards import Board, BoardProfile
from gpuplan.simulator.state import NodeState, SimulatedComputeInstance, SimulatedGpu, SimulatedGpuInstance, board_of

# --- Opaque handles: the pointer's value encodes what it refers to, and is never followed ---

_MARK = 0xA


class HandleKind(enum.IntEnum):
    """What a handle refers to."""

    GPU = 1
    GPU_INSTANCE = 2
    COMPUTE_INSTANCE = 3
    MIG_DEVICE = 4


_TYPES = {
    HandleKind.GPU: pynvml.c_nvmlDevice_t,
    HandleKind.GPU_INSTANCE: pynvml.c_nvmlGpuInstance_t,
    HandleKind.COMPUTE_INSTANCE: pynvml.c_nvmlComputeInstance_t,
    HandleKind.MIG_DEVICE: pynvml.c_nvmlDevice_t,
}


@dataclass(frozen=True)
class Meaning:
    """A handle, read: the numbers of GPU, GPU instance and compute instance."""

    kind: HandleKind
    gpu: int
    instance: int = 0
    compute: int = 0


def handle(kind: HandleKind, gpu: int, instance: int = 0, compute: int = 0) -> object:
    """A pointer of the type that pynvml has for this kind."""
    value = _MARK << 28 | kind << 24 | gpu << 16 | instance << 8 | compute
    return ctypes.cast(ctypes.c_void_p(value), _TYPES[kind])


def meaning(pointer: object, *kinds: HandleKind) -> Meaning:
    """What the handle refers to; NVML's INVALID_ARGUMENT where it is none of these kinds."""
    try:
        value = ctypes.cast(pointer, ctypes.c_void_p).value or 0  # type: ignore[arg-type]  # anything may be handed in
    except ctypes.ArgumentError:
        value = 0
    if value >> 28 != _MARK or (value >> 24 & 15) not in kinds:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return Meaning(HandleKind(value >> 24 & 15), value >> 16 & 255, value >> 8 & 255, value & 255)


def fill(array: object, kind: type[Any], values: list[Any]) -> None:
    """Write values into an array that the caller made, whether it gave the array, a pointer to it, or byref."""
    start = ctypes.addressof(_behind(array))
    for index, value in enumerate(values):
        ctypes.memmove(start + index * ctypes.sizeof(kind), ctypes.addressof(value), ctypes.sizeof(kind))


def set_count(counter: object, count: int) -> int:
    """Set the c_uint behind a pointer or byref; returns its previous value, the caller's capacity."""
    cell = _behind(counter)
    had = int(cell.value)
    cell.value = count
    return had


def start_of(placement: object) -> int:
    """Where a placement that the caller made begins."""
    return int(_behind(placement).start)


def _behind(argument: object) -> Any:
    """The C object that an argument passes: ctypes has no type for all three forms."""
    inner = getattr(argument, "_obj", argument)
    return inner.contents if isinstance(inner, ctypes._Pointer) else inner


COMPUTE_SLICES = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7, 5: 8, 6: 6, 7: 1}
"""NVML_COMPUTE_INSTANCE_PROFILE_* → compute slices (nvml.h)."""


def error(code: int) -> Exception:
    """pynvml's exception of this code."""
    raised: Exception = pynvml.NVMLError(code)
    return raised


def gpu_of(state: NodeState, known: Meaning) -> SimulatedGpu:
    """The GPU that a handle is of."""
    if known.gpu >= len(state.gpus):
        raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return state.gpus[known.gpu]


def divided(state: NodeState, known: Meaning) -> SimulatedGpu:
    """The GPU, which must be in MIG mode."""
    gpu = gpu_of(state, known)
    if not gpu.mig:
        raise error(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return gpu


def instance_of(state: NodeState, known: Meaning) -> SimulatedGpuInstance:
    """The GPU instance that a handle is of or inside of; a handle of a destroyed one is invalid."""
    for instance in gpu_of(state, known).instances:
        if instance.id == known.instance:
            return instance
    raise error(_gone(known))


def compute_of(state: NodeState, known: Meaning) -> SimulatedComputeInstance:
    """The compute instance that a handle is of."""
    for compute in instance_of(state, known).computes:
        if compute.id == known.compute:
            return compute
    raise error(_gone(known))


def profile_of(state: NodeState, known: Meaning, profile_id: int) -> BoardProfile:
    """The GPU instance profile of an id on this board."""
    for profile in board_of(gpu_of(state, known)).profiles:
        if profile.id == profile_id:
            return profile
    raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)


def _gone(known: Meaning) -> int:
    mig = known.kind is HandleKind.MIG_DEVICE
    return int(pynvml.NVML_ERROR_NOT_FOUND if mig else pynvml.NVML_ERROR_INVALID_ARGUMENT)


# --- Capacity: memory slices do not overlap; compute slices and media engines are used once ---


def fits(gpu: SimulatedGpu, profile: BoardProfile, start: int) -> bool:
    """True where an instance of the profile can be made at this placement now."""
    size = dict(profile.placements).get(start)
    if size is None or any(start < one.start + one.size and one.start < start + size for one in gpu.instances):
        return False
    board = board_of(gpu)
    there = _profiles(gpu, board)
    free = zip(_free(board, there), _takes(profile), strict=True)
    return there.count(profile) < profile.instances and all(left >= taken for left, taken in free)


def capacity(gpu: SimulatedGpu, profile: BoardProfile) -> int:
    """How many more instances of the profile can be made, if nothing else is made."""
    board = board_of(gpu)
    there = _profiles(gpu, board)
    places = sum(fits(gpu, profile, start) for start, _ in profile.placements)
    shares = [left // taken for left, taken in zip(_free(board, there), _takes(profile), strict=True) if taken]
    return min(places, profile.instances - there.count(profile), *shares)


def instance_id(gpu: SimulatedGpu, start: int, size: int) -> int:
    """The driver numbers places like a binary tree: the whole GPU is 0, its halves are 1 and 2, and so on."""
    return board_of(gpu).memory_slices // size - 1 + start // size


def _profiles(gpu: SimulatedGpu, board: Board) -> list[BoardProfile]:
    return [known for one in gpu.instances for known in board.profiles if known.id == one.profile_id]


def _takes(profile: BoardProfile) -> tuple[int, ...]:
    """Compute slices and media engines of one instance."""
    return profile.slices, profile.decoders, profile.encoders, profile.jpeg, profile.ofa


def _free(board: Board, there: list[BoardProfile]) -> list[int]:
    """What is left of them: of engines the GPU has as many as all instances of any profile take."""
    engines = zip(*([number * each.instances for number in _takes(each)[1:]] for each in board.profiles), strict=True)
    whole = [board.max_instances, *map(max, engines)]
    used = [sum(taken) for taken in zip(*map(_takes, there), strict=True)] or [0] * len(whole)
    return [all_of_it - taken for all_of_it, taken in zip(whole, used, strict=True)]
