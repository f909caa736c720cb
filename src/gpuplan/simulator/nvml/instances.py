"""NVML's questions about MIG: mode, profiles, placements, GPU instances, compute instances, MIG devices."""

from __future__ import annotations

import ctypes

import pynvml

from gpuplan.nvidia.boards import BoardProfile
from gpuplan.simulator.nvml.lookup import (
    COMPUTE_SLICES,
    HandleKind,
    capacity,
    compute_of,
    divided,
    error,
    fill,
    gpu_of,
    handle,
    instance_of,
    meaning,
    profile_of,
    set_count,
)
from gpuplan.simulator.state import board_of
from gpuplan.simulator.store import StateStore


class Instances:
    """Questions that change nothing."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    def device_get_mig_mode(self, device: object) -> list[int]:
        """Current and pending MIG mode."""
        gpu = gpu_of(self._store.read(), meaning(device, HandleKind.GPU))
        return [int(gpu.mig), int(gpu.pending)]

    def device_get_gpu_instance_profile_info(self, device: object, profile: int, version: int = 2) -> object:
        """The profile of an NVML_GPU_INSTANCE_PROFILE_* number; known whether MIG mode is on or not."""
        if not 0 <= profile < pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT:
            raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        board = board_of(gpu_of(self._store.read(), meaning(device, HandleKind.GPU)))
        for known in board.profiles:
            if known.enum == profile:
                return _profile_info(known, version)
        raise error(pynvml.NVML_ERROR_NOT_SUPPORTED)

    device_get_gpu_instance_profile_info_v = device_get_gpu_instance_profile_info

    def device_get_gpu_instance_possible_placements(
        self, device: object, profile_id: int, array: object, counter: object
    ) -> int:
        """Where the profile may stand on an empty GPU; first the count, then the placements."""
        known, state = meaning(device, HandleKind.GPU), self._store.read()
        divided(state, known)
        placements = profile_of(state, known, profile_id).placements
        had = set_count(counter, len(placements))
        if array is not None:
            if had < len(placements):
                raise error(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
            kind = pynvml.c_nvmlGpuInstancePlacement_t
            fill(array, kind, [kind(start, size) for start, size in placements])
        return 0

    def device_get_gpu_instance_remaining_capacity(self, device: object, profile_id: int) -> int:
        """How many more of the profile fit."""
        known, state = meaning(device, HandleKind.GPU), self._store.read()
        gpu, profile = divided(state, known), profile_of(state, known, profile_id)
        return capacity(gpu, profile)

    def device_get_gpu_instances(self, device: object, profile_id: int, array: object, counter: object) -> int:
        """Handles of the GPU instances of one profile."""
        known, state = meaning(device, HandleKind.GPU), self._store.read()
        gpu = divided(state, known)
        profile_of(state, known, profile_id)
        handles = [
            handle(HandleKind.GPU_INSTANCE, known.gpu, instance.id)
            for instance in gpu.instances
            if instance.profile_id == profile_id
        ]
        fill(array, pynvml.c_nvmlGpuInstance_t, handles)
        set_count(counter, len(handles))
        return 0

    def device_get_gpu_instance_by_id(self, device: object, number: int) -> object:
        """The GPU instance of an id."""
        known, state = meaning(device, HandleKind.GPU), self._store.read()
        if any(instance.id == number for instance in divided(state, known).instances):
            return handle(HandleKind.GPU_INSTANCE, known.gpu, number)
        raise error(pynvml.NVML_ERROR_NOT_FOUND)

    def gpu_instance_get_info(self, gpu_instance: object) -> object:
        """Id, profile and placement of a GPU instance."""
        known = meaning(gpu_instance, HandleKind.GPU_INSTANCE)
        instance = instance_of(self._store.read(), known)
        place = pynvml.c_nvmlGpuInstancePlacement_t(instance.start, instance.size)
        return pynvml.c_nvmlGpuInstanceInfo_t(
            handle(HandleKind.GPU, known.gpu), instance.id, instance.profile_id, place
        )

    def gpu_instance_get_compute_instance_profile_info(
        self, gpu_instance: object, profile: int, _engine: int, version: int = 2
    ) -> object:
        """The compute instance profile of a number; there is one for each part that fits into the instance."""
        known, state = meaning(gpu_instance, HandleKind.GPU_INSTANCE), self._store.read()
        around = profile_of(state, known, instance_of(state, known).profile_id)
        if not 0 <= profile < pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT:
            raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        slices = COMPUTE_SLICES.get(profile, 0)
        if profile > 4 or not 0 < slices <= around.slices:
            raise error(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return _compute_profile_info(around, profile, slices, version)

    gpu_instance_get_compute_instance_profile_info_v = gpu_instance_get_compute_instance_profile_info

    def gpu_instance_get_compute_instances(
        self, gpu_instance: object, profile_id: int, array: object, counter: object
    ) -> int:
        """Handles of the compute instances of one profile."""
        known = meaning(gpu_instance, HandleKind.GPU_INSTANCE)
        handles = [
            handle(HandleKind.COMPUTE_INSTANCE, known.gpu, known.instance, compute.id)
            for compute in instance_of(self._store.read(), known).computes
            if compute.profile_id == profile_id
        ]
        fill(array, pynvml.c_nvmlComputeInstance_t, handles)
        set_count(counter, len(handles))
        return 0

    def compute_instance_get_info_v2(self, compute_instance: object) -> object:
        """Id and profile of a compute instance."""
        known = meaning(compute_instance, HandleKind.COMPUTE_INSTANCE)
        compute = compute_of(self._store.read(), known)
        info = pynvml.c_nvmlComputeInstanceInfo_t()
        info.device = handle(HandleKind.MIG_DEVICE, known.gpu, known.instance, compute.id)
        info.gpuInstance = handle(HandleKind.GPU_INSTANCE, known.gpu, known.instance)
        info.id, info.profileId = compute.id, compute.profile_id
        info.placement.size = compute.slices
        return info

    compute_instance_get_info = compute_instance_get_info_v2

    def device_is_mig_device_handle(self, device: object) -> ctypes.c_uint:
        """1 for a MIG device."""
        return ctypes.c_uint(meaning(device, HandleKind.GPU, HandleKind.MIG_DEVICE).kind is HandleKind.MIG_DEVICE)

    def device_get_gpu_instance_id(self, device: object) -> int:
        """The GPU instance that a MIG device is in."""
        return meaning(device, HandleKind.MIG_DEVICE).instance

    def device_get_compute_instance_id(self, device: object) -> int:
        """The compute instance that a MIG device is."""
        return meaning(device, HandleKind.MIG_DEVICE).compute

    def device_get_max_mig_device_count(self, device: object) -> int:
        """How many MIG devices the GPU can have; none while MIG mode is off."""
        gpu = gpu_of(self._store.read(), meaning(device, HandleKind.GPU))
        return board_of(gpu).max_instances if gpu.mig else 0

    def device_get_mig_device_handle_by_index(self, device: object, index: int) -> object:
        """The MIG device of a position on its GPU."""
        known, state = meaning(device, HandleKind.GPU), self._store.read()
        devices = [
            handle(HandleKind.MIG_DEVICE, known.gpu, instance.id, compute.id)
            for instance in gpu_of(state, known).instances
            for compute in instance.computes
        ]
        if not 0 <= index < len(devices):
            raise error(pynvml.NVML_ERROR_NOT_FOUND)
        return devices[index]

    def device_get_device_handle_from_mig_device_handle(self, device: object) -> object:
        """The GPU of a MIG device."""
        return handle(HandleKind.GPU, meaning(device, HandleKind.MIG_DEVICE).gpu)


def _profile_info(profile: BoardProfile, version: int) -> object:
    if version == 1:
        info = pynvml.c_nvmlGpuInstanceProfileInfo_t()
    else:
        info = pynvml.c_nvmlGpuInstanceProfileInfo_v2_t()
        info.name = f"MIG {profile.name}".encode()
    info.id, info.isP2pSupported = profile.id, 0
    info.sliceCount, info.instanceCount = profile.slices, profile.instances
    info.multiprocessorCount, info.memorySizeMB = profile.multiprocessors, profile.memory_mib
    info.copyEngineCount, info.decoderCount, info.encoderCount = (
        profile.copy_engines,
        profile.decoders,
        profile.encoders,
    )
    info.jpegCount, info.ofaCount = profile.jpeg, profile.ofa
    return info


def _compute_profile_info(around: BoardProfile, number: int, slices: int, version: int) -> object:
    if version == 1:
        info = pynvml.c_nvmlComputeInstanceProfileInfo_t()
    else:
        info = pynvml.c_nvmlComputeInstanceProfileInfo_v2_t()
        part = "" if slices == around.slices else f"{slices}c."
        info.name = f"MIG {part}{around.name}".encode()
    info.id, info.sliceCount, info.instanceCount = number, slices, around.slices // slices
    info.multiprocessorCount = around.multiprocessors * slices // around.slices
    info.sharedCopyEngineCount, info.sharedDecoderCount = around.copy_engines, around.decoders
    info.sharedEncoderCount, info.sharedJpegCount, info.sharedOfaCount = around.encoders, around.jpeg, around.ofa
    return info
