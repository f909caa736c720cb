"""MIG as NVML tells it: the profiles of a GPU, the instances on it, and the UUIDs of its MIG devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import nvml as calls
from .failure import explain

ENGINE_SHARED = 0
"""NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, the only engine profile that NVML defines."""


def profile_infos(nvml: Any, device: Any) -> Iterator[Any]:
    """NVML's own description of each GPU instance profile that this GPU has."""
    for number in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            yield nvml.nvmlDeviceGetGpuInstanceProfileInfo(device, number)
        except nvml.NVMLError as error:
            if not calls.absent(error):
                raise


def profile_name(info: Any) -> str:
    """`3g.40gb` out of NVML's `MIG 3g.40gb`."""
    name = calls.text(info.name)
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
            "placements": calls.placements(nvml, device, info.id) if mig_is_on else None,
        }
        for info in profile_infos(nvml, device)
    ]


def instances(nvml: Any, device: Any) -> list[dict[str, object]]:
    """All GPU instances with their compute instances, in the order in which they stand."""
    uuids = mig_uuids(nvml, device)
    found: list[dict[str, object]] = []
    for info in profile_infos(nvml, device):
        for handle in calls.gpu_instances(nvml, device, info.id, info.instanceCount):
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
            if not calls.absent(error):
                raise


def compute_handles(nvml: Any, gpu_instance: Any) -> list[tuple[Any, int]]:
    """Handles of all compute instances of a GPU instance, with the compute slices of each."""
    return [
        (handle, int(profile.sliceCount))
        for profile in compute_profiles(nvml, gpu_instance)
        for handle in calls.compute_instances(nvml, gpu_instance, profile.id, profile.instanceCount)
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
        uuids[ids] = calls.text(nvml.nvmlDeviceGetUUID(handle))
    return uuids
