"""Resetting one GPU, which NVML cannot do: by nvidia-smi, which comes with the driver."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from . import nvml as calls
from .failure import Failure
from .world import World

PATIENCE = 120.0
REFUSALS = (
    ("in use by another", "in_use"),
    ("not supported", "not_supported"),
    ("insufficient permissions", "no_permission"),
)
"""What nvidia-smi says in its refusals (it exits with 255 for each of them), and our word for it."""


def reset(world: World, uuid: str) -> dict[str, object]:
    """Reset exactly this GPU. Whether it was is what the next look says: nvidia-smi may report what did not happen."""
    if not uuid.startswith("GPU-"):
        raise Failure("invalid", "not the UUID of a GPU: {}".format(uuid))
    with _persistence_off(world, uuid):
        code, said = world.run(("nvidia-smi", "--gpu-reset", "-i", uuid), PATIENCE)
    if code:
        told = " ".join(said.split())
        word = next((word for text, word in REFUSALS if text in told.lower()), "unexpected")
        raise Failure(word, told or "nvidia-smi ended with {}".format(code))
    return {}


@contextlib.contextmanager
def _persistence_off(world: World, uuid: str) -> Iterator[None]:
    """Persistence mode is off inside, since it holds the GPU (NVIDIA/NVSentinel#1690), and as it was afterwards."""
    if not _persists(world, uuid):
        yield
        return
    _persist(world, uuid, 0)
    try:
        yield
    finally:
        _persist(world, uuid, 1)


def _persists(world: World, uuid: str) -> bool:
    with calls.opened(world) as nvml:
        device = nvml.nvmlDeviceGetHandleByUUID(uuid)
        return bool(calls.unless_absent(nvml, lambda: nvml.nvmlDeviceGetPersistenceMode(device)))


def _persist(world: World, uuid: str, mode: int) -> None:
    with calls.opened(world) as nvml:
        nvml.nvmlDeviceSetPersistenceMode(nvml.nvmlDeviceGetHandleByUUID(uuid), mode)
