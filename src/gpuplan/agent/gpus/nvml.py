"""NVML through pynvml: one session, and the calls whose C form pynvml leaves to its caller.

The agent calls of pynvml: nvmlInit, nvmlShutdown, nvmlSystemGetDriverVersion, nvmlSystemGetCudaDriverVersion;
of a device (nvmlDevice…) GetCount, GetHandleByIndex, GetHandleByUUID, GetUUID, GetName, GetPciInfo (busId),
GetMemoryInfo (total, used, free), GetCudaComputeCapability, GetArchitecture, GetVirtualizationMode, GetMinorNumber,
GetPersistenceMode, GetComputeMode, GetEccMode, GetPowerManagementLimit, …LimitConstraints, …DefaultLimit, and SetX for
PersistenceMode, ComputeMode, EccMode and PowerManagementLimit,
GetComputeRunningProcesses and GetGraphicsRunningProcesses (pid, usedGpuMemory, gpuInstanceId, computeInstanceId),
GetMigMode, SetMigMode, GetMaxMigDeviceCount, GetMigDeviceHandleByIndex, GetGpuInstanceId, GetComputeInstanceId,
GetGpuInstanceProfileInfo, GetGpuInstanceById; of instances nvmlGpuInstanceGetInfo, nvmlGpuInstanceDestroy,
nvmlGpuInstanceGetComputeInstanceProfileInfo, nvmlGpuInstanceCreateComputeInstance, nvmlComputeInstanceGetInfo,
nvmlComputeInstanceDestroy, nvmlGpuInstanceGetComputeInstancePossiblePlacements and
nvmlGpuInstanceCreateComputeInstanceWithPlacement (older drivers lack both); and those that this file wraps.
These fill arrays: the count is a `ctypes.pointer`
(a simulation sets `.contents.value`), the array is one of `c_nvmlGpuInstancePlacement_t`, `c_nvmlGpuInstance_t` or
`c_nvmlComputeInstance_t` (a simulation may define the last two as `ctypes.py_object`).
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any, Callable

from ..failure import explain
from ..world import World

ABSENT = ("not_supported", "invalid", "not_found")
"""NVML's answers for what this GPU does not have; an older driver calls a newer profile invalid."""


@contextlib.contextmanager
def opened(world: World) -> Iterator[Any]:
    """An initialised NVML. One for each operation, since handles do not survive a change of MIG mode."""
    nvml = world.nvml()
    nvml.nvmlInit()
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def text(value: str | bytes) -> str:
    """NVML's strings; bindings differ in whether they decode them."""
    return value.decode() if isinstance(value, bytes) else value


def optional(nvml: Any, read: Callable[[], Any]) -> Any:
    """A property that not every GPU or driver has; None if this one has not."""
    try:
        return read()
    except nvml.NVMLError as error:
        if absent(error):
            return None
        raise


def absent(error: Exception) -> bool:
    """True if NVML said that there is no such thing, rather than that something went wrong."""
    return explain(error).code in ABSENT


def placements(nvml: Any, device: Any, profile_id: int) -> list[list[int]]:
    """Where the profile may stand: `[start, size]` in memory slices. NVML says so only while MIG mode is on."""
    count = ctypes.c_uint()
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(device, profile_id, None, ctypes.pointer(count))
    array = (nvml.c_nvmlGpuInstancePlacement_t * count.value)()
    if count.value:
        nvml.nvmlDeviceGetGpuInstancePossiblePlacements(device, profile_id, array, ctypes.pointer(count))
    return sorted([int(place.start), int(place.size)] for place in array[: count.value])


def gpu_instances(nvml: Any, device: Any, profile_id: int, most: int) -> list[Any]:
    """Handles of the GPU instances of one profile; there can be `most` of them."""
    count = ctypes.c_uint(most)
    array = (nvml.c_nvmlGpuInstance_t * most)()
    nvml.nvmlDeviceGetGpuInstances(device, profile_id, array, ctypes.pointer(count))
    return [array[index] for index in range(count.value)]


def compute_instances(nvml: Any, gpu_instance: Any, profile_id: int, most: int) -> list[Any]:
    """Handles of the compute instances of one profile inside a GPU instance."""
    count = ctypes.c_uint(most)
    array = (nvml.c_nvmlComputeInstance_t * most)()
    nvml.nvmlGpuInstanceGetComputeInstances(gpu_instance, profile_id, array, ctypes.pointer(count))
    return [array[index] for index in range(count.value)]


def create_gpu_instance(nvml: Any, device: Any, profile_id: int, start: int, size: int) -> Any:
    """A GPU instance at exactly this placement."""
    place = nvml.c_nvmlGpuInstancePlacement_t(start, size)
    return nvml.nvmlDeviceCreateGpuInstanceWithPlacement(device, profile_id, ctypes.pointer(place))


def compute_placements(nvml: Any, gpu_instance: Any, profile_id: int) -> list[tuple[int, int]]:
    """Where in a GPU instance a compute instance may stand: (start, size); none where an older driver cannot say."""
    count = ctypes.c_uint()
    ask = nvml.nvmlGpuInstanceGetComputeInstancePossiblePlacements
    try:
        ask(gpu_instance, profile_id, None, ctypes.pointer(count))
        array = (nvml.c_nvmlComputeInstancePlacement_t * count.value)()
        if count.value:
            ask(gpu_instance, profile_id, array, ctypes.pointer(count))
    except nvml.NVMLError as error:
        if getattr(error, "value", 0) == nvml.NVML_ERROR_FUNCTION_NOT_FOUND or absent(error):
            return []
        raise
    return sorted((int(place.start), int(place.size)) for place in array[: count.value])


def create_compute_instance(nvml: Any, gpu_instance: Any, profile_id: int, start: tuple[int, int] | None) -> Any:
    """A compute instance at this placement, or wherever the driver puts it."""
    if start is None:
        return nvml.nvmlGpuInstanceCreateComputeInstance(gpu_instance, profile_id)
    place = ctypes.pointer(nvml.c_nvmlComputeInstancePlacement_t(*start))
    try:
        return nvml.nvmlGpuInstanceCreateComputeInstanceWithPlacement(gpu_instance, profile_id, place)
    except nvml.NVMLError as error:
        if getattr(error, "value", 0) != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
    return nvml.nvmlGpuInstanceCreateComputeInstance(gpu_instance, profile_id)


# MIG as NVML tells it: the profiles of a GPU, the instances on it, and the UUIDs of its MIG devices.

ENGINE_SHARED = 0
"""NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, the only engine profile that NVML defines."""


def profile_infos(nvml: Any, device: Any) -> Iterator[Any]:
    """NVML's own description of each GPU instance profile that this GPU has."""
    for number in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            yield nvml.nvmlDeviceGetGpuInstanceProfileInfo(device, number)
        except nvml.NVMLError as error:
            if not absent(error):
                raise


def profile_name(info: Any) -> str:
    """`3g.40gb` out of NVML's `MIG 3g.40gb`."""
    name = text(info.name)
    return name[4:] if name.startswith("MIG ") else name


def profiles(nvml: Any, device: Any, mig_is_on: bool) -> list[dict[str, object]]:
    """All profiles, by id, as docs/snapshot.md describes them."""
    return [
        {
            "id": int(info.id),
            "name": profile_name(info),
            "slices": int(info.sliceCount),
            "memory_mib": int(info.memorySizeMB),
            "instances": int(info.instanceCount),
            "multiprocessors": int(info.multiprocessorCount),
            "copy_engines": int(info.copyEngineCount),
            "decoders": int(info.decoderCount),
            "encoders": int(info.encoderCount),
            "jpeg": int(info.jpegCount),
            "ofa": int(info.ofaCount),
            "placements": placements(nvml, device, info.id) if mig_is_on else None,
        }
        for info in profile_infos(nvml, device)
    ]


def instances(nvml: Any, device: Any) -> list[dict[str, object]]:
    """All GPU instances with their compute instances, in the order in which they stand."""
    uuids = mig_uuids(nvml, device)
    found: list[dict[str, object]] = []
    for info in profile_infos(nvml, device):
        for handle in gpu_instances(nvml, device, info.id, info.instanceCount):
            place = nvml.nvmlGpuInstanceGetInfo(handle)
            inside = [
                {
                    "id": int(each.id),
                    "profile_id": int(each.profileId),
                    "slices": slices,
                    "uuid": uuids.get((place.id, each.id)),
                }
                for each, slices in compute_infos(nvml, handle)
            ]
            found.append(
                {
                    "id": int(place.id),
                    "profile_id": int(info.id),
                    "profile": profile_name(info),
                    "start": int(place.placement.start),
                    "size": int(place.placement.size),
                    "compute_instances": inside,
                }
            )
    return sorted(found, key=lambda each: (each["start"], each["id"]))


def compute_profiles(nvml: Any, gpu_instance: Any) -> Iterator[Any]:
    """The compute instance profiles of a GPU instance."""
    for number in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        try:
            yield nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(gpu_instance, number, ENGINE_SHARED)
        except nvml.NVMLError as error:
            if not absent(error):
                raise


def compute_handles(nvml: Any, gpu_instance: Any) -> list[tuple[Any, int]]:
    """Handles of all compute instances of a GPU instance, with the compute slices of each."""
    return [
        (handle, int(profile.sliceCount))
        for profile in compute_profiles(nvml, gpu_instance)
        for handle in compute_instances(nvml, gpu_instance, profile.id, profile.instanceCount)
    ]


def compute_infos(nvml: Any, gpu_instance: Any) -> list[tuple[Any, int]]:
    """NVML's description of each compute instance and its compute slices, by id."""
    infos = [(nvml.nvmlComputeInstanceGetInfo(one), slices) for one, slices in compute_handles(nvml, gpu_instance)]
    return sorted(infos, key=lambda found: int(found[0].id))


def mig_uuids(nvml: Any, device: Any) -> dict[tuple[int, int], str]:
    """(GPU instance id, compute instance id) → UUID of the MIG device. NVML's indices may have gaps."""
    uuids: dict[tuple[int, int], str] = {}
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(device)):
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, index)
        except nvml.NVMLError as error:
            if explain(error).code != "not_found":
                raise
            continue
        ids = (int(nvml.nvmlDeviceGetGpuInstanceId(handle)), int(nvml.nvmlDeviceGetComputeInstanceId(handle)))
        uuids[ids] = text(nvml.nvmlDeviceGetUUID(handle))
    return uuids
