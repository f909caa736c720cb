"""Changing MIG: mode, and instances at exactly the placement that was planned."""

from __future__ import annotations

from typing import Any

from . import nvml as calls
from .failure import Failure
from .instances import compute_handles, compute_profiles, mig_uuids, profile_infos
from .world import World


def set_mode(world: World, uuid: str, enabled: bool) -> dict[str, object]:
    """Set the MIG mode; `status` is NVML's activation status, `current` and `pending` what a second look says."""
    with calls.opened(world) as nvml:
        status = nvml.nvmlDeviceSetMigMode(nvml.nvmlDeviceGetHandleByUUID(uuid), int(enabled))
    with calls.opened(world) as nvml:  # the driver may have reset the GPU: handles from before are void
        current, pending = nvml.nvmlDeviceGetMigMode(nvml.nvmlDeviceGetHandleByUUID(uuid))
    return {"status": int(status), "current": bool(current), "pending": bool(pending)}


def create(world: World, uuid: str, profile_id: int, start: int, size: int) -> dict[str, object]:
    """Create a GPU instance and the compute instance that fills it; where the second fails, the first goes again."""
    with calls.opened(world) as nvml:
        device = nvml.nvmlDeviceGetHandleByUUID(uuid)
        instance = calls.create_gpu_instance(nvml, device, profile_id, start, size)
        number = int(nvml.nvmlGpuInstanceGetInfo(instance).id)
        try:
            mig_uuid = _fill(nvml, device, instance)
        except (nvml.NVMLError, Failure):
            nvml.nvmlGpuInstanceDestroy(instance)
            raise
    return {"instance": number, "mig_uuid": mig_uuid}


def create_compute(world: World, uuid: str, instance: int) -> dict[str, object]:
    """Create the compute instance that fills a GPU instance which has none."""
    with calls.opened(world) as nvml:
        device = nvml.nvmlDeviceGetHandleByUUID(uuid)
        return {"mig_uuid": _fill(nvml, device, nvml.nvmlDeviceGetGpuInstanceById(device, instance))}


def destroy(world: World, uuid: str, instance: int, profile_id: int, start: int) -> dict[str, object]:
    """Destroy a GPU instance with what is in it; `in_use` before anything is touched where a process runs there."""
    with calls.opened(world) as nvml:
        device = nvml.nvmlDeviceGetHandleByUUID(uuid)
        handle = nvml.nvmlDeviceGetGpuInstanceById(device, instance)
        info = nvml.nvmlGpuInstanceGetInfo(handle)
        if (info.profileId, info.placement.start) != (profile_id, start):
            raise Failure("moved", "instance {} is another one now".format(instance))
        busy = [process.pid for process in _processes(nvml, device) if process.gpuInstanceId == instance]
        if busy:
            raise Failure("in_use", "processes run in it: {}".format(", ".join(map(str, busy))))
        for inside in compute_handles(nvml, handle):
            nvml.nvmlComputeInstanceDestroy(inside)
        nvml.nvmlGpuInstanceDestroy(handle)
    return {}


def _processes(nvml: Any, device: Any) -> list[Any]:
    found: list[Any] = list(nvml.nvmlDeviceGetComputeRunningProcesses(device))
    try:
        found += nvml.nvmlDeviceGetGraphicsRunningProcesses(device)
    except nvml.NVMLError as error:
        if not calls.absent(error):
            raise
    return found


def _fill(nvml: Any, device: Any, instance: Any) -> str:
    """Create the compute instance with as many slices as the GPU instance has; the UUID of the MIG device."""
    info = nvml.nvmlGpuInstanceGetInfo(instance)
    slices = next(each.sliceCount for each in profile_infos(nvml, device) if each.id == info.profileId)
    fitting = [each for each in compute_profiles(nvml, instance) if each.sliceCount == slices]
    if not fitting:
        raise Failure("not_supported", "no compute instance profile has {} slices".format(slices))
    inside = nvml.nvmlGpuInstanceCreateComputeInstance(instance, fitting[0].id)
    number = int(nvml.nvmlComputeInstanceGetInfo(inside).id)
    found = mig_uuids(nvml, device).get((int(info.id), number))
    if found is None:
        nvml.nvmlComputeInstanceDestroy(inside)
        raise Failure("unexpected", "{} has no MIG device".format(number))
    return found
