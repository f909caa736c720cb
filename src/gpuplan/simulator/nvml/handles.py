"""NVML's opaque handles: what each stands for is written into the pointer's value, and never followed."""

from __future__ import annotations

import ctypes
import enum
from dataclasses import dataclass
from typing import Any

import pynvml

_MARK = 0xA


class Kind(enum.IntEnum):
    """What a handle stands for."""

    GPU = 1
    GPU_INSTANCE = 2
    COMPUTE_INSTANCE = 3
    MIG_DEVICE = 4


_TYPES = {
    Kind.GPU: pynvml.c_nvmlDevice_t,
    Kind.GPU_INSTANCE: pynvml.c_nvmlGpuInstance_t,
    Kind.COMPUTE_INSTANCE: pynvml.c_nvmlComputeInstance_t,
    Kind.MIG_DEVICE: pynvml.c_nvmlDevice_t,
}


@dataclass(frozen=True)
class Meaning:
    """A handle, read: the numbers of GPU, GPU instance and compute instance."""

    kind: Kind
    gpu: int
    instance: int = 0
    compute: int = 0


def handle(kind: Kind, gpu: int, instance: int = 0, compute: int = 0) -> object:
    """A pointer of the type that pynvml has for this kind."""
    value = _MARK << 28 | kind << 24 | gpu << 16 | instance << 8 | compute
    return ctypes.cast(ctypes.c_void_p(value), _TYPES[kind])


def meaning(pointer: object, *kinds: Kind) -> Meaning:
    """What the handle stands for; NVML's INVALID_ARGUMENT where it is none of these kinds."""
    try:
        value = ctypes.cast(pointer, ctypes.c_void_p).value or 0  # type: ignore[arg-type]  # anything may be handed in
    except ctypes.ArgumentError:
        value = 0
    if value >> 28 != _MARK or (value >> 24 & 15) not in kinds:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return Meaning(Kind(value >> 24 & 15), value >> 16 & 255, value >> 8 & 255, value & 255)


def fill(array: object, kind: type[Any], values: list[Any]) -> None:
    """Write values into an array that the caller made, whether it gave the array, a pointer to it, or byref."""
    start = ctypes.addressof(_behind(array))
    for index, value in enumerate(values):
        ctypes.memmove(start + index * ctypes.sizeof(kind), ctypes.addressof(value), ctypes.sizeof(kind))


def set_count(counter: object, count: int) -> int:
    """Set the c_uint behind a pointer or byref; returns what it was, the room that the caller has."""
    found = _behind(counter)
    had = int(found.value)
    found.value = count
    return had


def start_of(placement: object) -> int:
    """Where a placement that the caller made begins."""
    return int(_behind(placement).start)


def _behind(argument: object) -> Any:
    """The C object that an argument passes: ctypes has no type for all three forms."""
    inner = getattr(argument, "_obj", argument)
    return inner.contents if isinstance(inner, ctypes._Pointer) else inner
