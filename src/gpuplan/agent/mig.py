"""Changing MIG: mode, and instances at exactly the placement that was planned."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from . import nvml as calls
from .compute import fill
from .failure import Failure
from .instances import compute_handles
from .world import World


def set_mode(world: World, uuid: str, enabled: bool) -> dict[str, object]:
    """Set the MIG mode; `status` is NVML's activation status, `current` and `pending` what a second look says."""
    with calls.opened(world) as nvml:
        status = nvml.nvmlDeviceSetMigMode(nvml.nvmlDeviceGetHandleByUUID(uuid), int(enabled))
    with calls.opened(world) as nvml:  # the driver may have reset the GPU: handles from before are void
        current, pending = nvml.nvmlDeviceGetMigMode(nvml.nvmlDeviceGetHandleByUUID(uuid))
    return {"status": int(status), "current": bool(current), "pending": bool(pending)}


def create(
    world: World, uuid: str, profile_id: int, start: int, size: int, compute: Sequence[int] | None
) -> dict[str, object]:
    """Create a GPU instance and what is to be inside it; where the second fails, the first goes again."""
    with calls.opened(world) as nvml:
        device = nvml.nvmlDeviceGetHandleByUUID(uuid)
        instance = calls.create_gpu_instance(nvml, device, profile_id, start, size)
        number = int(nvml.nvmlGpuInstanceGetInfo(instance).id)
        try:
            found = fill(nvml, device, instance, compute)
        except (nvml.NVMLError, Failure):
            nvml.nvmlGpuInstanceDestroy(instance)
            raise
    return {"instance": number, "mig_uuid": found[0], "mig_uuids": found}


def create_compute(world: World, uuid: str, instance: int, compute: Sequence[int] | None) -> dict[str, object]:
    """Create compute instances in a GPU instance that stands."""
    with calls.opened(world) as nvml:
        device = nvml.nvmlDeviceGetHandleByUUID(uuid)
        found = fill(nvml, device, nvml.nvmlDeviceGetGpuInstanceById(device, instance), compute)
    return {"mig_uuid": found[0], "mig_uuids": found}


def destroy_compute(
    world: World, uuid: str, instance: int, profile_id: int, start: int, compute: int
) -> dict[str, object]:
    """Destroy one compute instance; `in_use` before anything is touched where a process runs in it."""
    with calls.opened(world) as nvml:
        device = nvml.nvmlDeviceGetHandleByUUID(uuid)
        handle = _meant(nvml, device, instance, profile_id, start)
        place = (instance, compute)
        _refuse_if_busy(nvml, device, lambda each: (each.gpuInstanceId, each.computeInstanceId) == place)
        for inside, _ in compute_handles(nvml, handle):
            if int(nvml.nvmlComputeInstanceGetInfo(inside).id) == compute:
                nvml.nvmlComputeInstanceDestroy(inside)
                return {}
    raise Failure("not_found", "instance {} has no compute instance {}".format(instance, compute))


def destroy(world: World, uuid: str, instance: int, profile_id: int, start: int) -> dict[str, object]:
    """Destroy a GPU instance with what is in it; `in_use` before anything is touched where a process runs there."""
    with calls.opened(world) as nvml:
        device = nvml.nvmlDeviceGetHandleByUUID(uuid)
        handle = _meant(nvml, device, instance, profile_id, start)
        _refuse_if_busy(nvml, device, lambda each: each.gpuInstanceId == instance)
        for inside, _ in compute_handles(nvml, handle):
            nvml.nvmlComputeInstanceDestroy(inside)
        nvml.nvmlGpuInstanceDestroy(handle)
    return {}


def _meant(nvml: Any, device: Any, instance: int, profile_id: int, start: int) -> Any:
    handle = nvml.nvmlDeviceGetGpuInstanceById(device, instance)
    info = nvml.nvmlGpuInstanceGetInfo(handle)
    if (info.profileId, info.placement.start) != (profile_id, start):
        raise Failure("moved", "instance {} is another one now".format(instance))
    return handle


def _refuse_if_busy(nvml: Any, device: Any, runs_there: Callable[[Any], bool]) -> None:
    busy = [process.pid for process in _processes(nvml, device) if runs_there(process)]
    if busy:
        raise Failure("in_use", "processes run in it: {}".format(", ".join(map(str, busy))))


def _processes(nvml: Any, device: Any) -> list[Any]:
    found: list[Any] = list(nvml.nvmlDeviceGetComputeRunningProcesses(device))
    try:
        found += nvml.nvmlDeviceGetGraphicsRunningProcesses(device)
    except nvml.NVMLError as error:
        if not calls.absent(error):
            raise
    return found
