"""NVML's acts: MIG mode, and making and destroying instances, with the refusals of the real library."""

from __future__ import annotations

import uuid

import pynvml

from gpuplan.simulator.devices import processes
from gpuplan.simulator.hardware import power_of
from gpuplan.simulator.nvml.lookup import (
    COMPUTE_SLICES,
    HandleKind,
    compute_of,
    divided,
    error,
    fits,
    gpu_of,
    handle,
    instance_id,
    instance_of,
    meaning,
    profile_of,
    start_of,
)
from gpuplan.simulator.state import SimulatedComputeInstance, SimulatedGpu, SimulatedGpuInstance, board_of
from gpuplan.simulator.store import StateStore
from gpuplan.simulator.tools import held, reset


class Creation:
    """Acts on GPUs."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    def device_set_mig_mode(self, device: object, mode: int) -> int:
        """Set MIG mode; returns the activation status: IN_USE where the mode stays pending because a process holds the
        GPU. Where it is passed through the reset that an Ampere board needs does not happen, and nothing says so.
        """
        known = meaning(device, HandleKind.GPU)
        with self._store.write() as state:
            gpu = gpu_of(state, known)
            if mode not in (0, 1):
                raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)
            if not mode and gpu.instances:
                raise error(pynvml.NVML_ERROR_IN_USE)
            gpu.pending = bool(mode)
            if gpu.mig != gpu.pending and held(state, known.gpu):
                return int(pynvml.NVML_ERROR_IN_USE)
            if gpu.mig != gpu.pending and board_of(gpu).needs_reset_for_mode:
                if state.virtualization in ("passthrough", "vgpu"):
                    return int(pynvml.NVML_SUCCESS)
                reset(gpu)
            gpu.mig = gpu.pending
            return int(pynvml.NVML_SUCCESS)

    def device_create_gpu_instance(self, device: object, profile_id: int) -> object:
        """Make a GPU instance wherever it fits first."""
        return self._create(device, profile_id, None)

    def device_create_gpu_instance_with_placement(self, device: object, profile_id: int, placement: object) -> object:
        """Make a GPU instance at exactly this placement."""
        return self._create(device, profile_id, start_of(placement))

    def _create(self, device: object, profile_id: int, start: int | None) -> object:
        known = meaning(device, HandleKind.GPU)
        with self._store.write() as state:
            gpu = divided(state, known)
            profile = profile_of(state, known, profile_id)
            sizes = dict(profile.placements)
            if start is not None and start not in sizes:
                raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)
            free = [one for one in (sizes if start is None else (start,)) if fits(gpu, profile, one)]
            if not free:
                raise error(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES)
            size = sizes[free[0]]
            instance = SimulatedGpuInstance(instance_id(gpu, free[0], size), profile.id, free[0], size)
            gpu.instances.append(instance)
            return handle(HandleKind.GPU_INSTANCE, known.gpu, instance.id)

    def gpu_instance_destroy(self, gpu_instance: object) -> int:
        """Destroy a GPU instance that has no compute instance left."""
        known = meaning(gpu_instance, HandleKind.GPU_INSTANCE)
        with self._store.write() as state:
            instance = instance_of(state, known)
            if instance.computes:
                raise error(pynvml.NVML_ERROR_IN_USE)
            gpu_of(state, known).instances.remove(instance)
        return 0

    def gpu_instance_create_compute_instance(self, gpu_instance: object, profile_id: int) -> object:
        """Make a compute instance; its MIG device gets a UUID that was never there before."""
        known = meaning(gpu_instance, HandleKind.GPU_INSTANCE)
        with self._store.write() as state:
            instance = instance_of(state, known)
            slices = COMPUTE_SLICES.get(profile_id, 0)
            if not slices or profile_id > 4:
                raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)
            used = sum(one.slices for one in instance.computes)
            if used + slices > profile_of(state, known, instance.profile_id).slices:
                raise error(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES)
            taken = {one.id for one in instance.computes}
            number = next(number for number in range(8) if number not in taken)
            identity = uuid.uuid5(uuid.NAMESPACE_DNS, f"{gpu_of(state, known).uuid}/mig/{state.count()}")
            instance.computes.append(SimulatedComputeInstance(number, profile_id, slices, f"MIG-{identity}"))
            return handle(HandleKind.COMPUTE_INSTANCE, known.gpu, known.instance, number)

    def compute_instance_destroy(self, compute_instance: object) -> int:
        """Destroy a compute instance on which no process runs."""
        known = meaning(compute_instance, HandleKind.COMPUTE_INSTANCE)
        with self._store.write() as state:
            compute = compute_of(state, known)
            place = (known.gpu, known.instance, known.compute)
            if any((one.device.gpu, one.device.instance, one.device.compute) == place for one in processes(state)):
                raise error(pynvml.NVML_ERROR_IN_USE)
            instance_of(state, known).computes.remove(compute)
        return 0


# --- Settings other than MIG: persistence mode, power limit, compute mode, ECC ---

_ARCHITECTURES = {"ampere": 7, "hopper": 9, "blackwell": 10}
_VIRTUALIZATION = {"none": 0, "passthrough": 1, "vgpu": 2, "host_vgpu": 3, "host_vsga": 4}
_COMPUTE_MODES = (0, 2, 3)


class GpuSettingCalls:
    """Settings of a GPU."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    def device_get_architecture(self, device: object) -> int:
        """NVML_DEVICE_ARCH_*."""
        return _ARCHITECTURES.get(board_of(self._gpu(device)).architecture, 0xFFFFFFFF)

    def device_get_virtualization_mode(self, device: object) -> int:
        """NVML_GPU_VIRTUALIZATION_MODE_*."""
        self._gpu(device)
        return _VIRTUALIZATION[self._store.read().virtualization]

    def device_get_persistence_mode(self, device: object) -> int:
        """Whether the driver keeps the GPU initialised while it is unused."""
        return int(self._gpu(device).persistence)

    def device_set_persistence_mode(self, device: object, mode: int) -> None:
        """Set it; at once."""
        with self._store.write() as state:
            gpu_of(state, meaning(device, HandleKind.GPU)).persistence = _boolean(mode)

    def device_get_compute_mode(self, device: object) -> int:
        """NVML_COMPUTEMODE_*."""
        return self._gpu(device).compute_mode

    def device_set_compute_mode(self, device: object, mode: int) -> None:
        """Set it; at once."""
        if mode not in _COMPUTE_MODES:
            raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        with self._store.write() as state:
            gpu_of(state, meaning(device, HandleKind.GPU)).compute_mode = mode

    def device_get_ecc_mode(self, device: object) -> list[int]:
        """Current and pending."""
        gpu = self._gpu(device)
        return [int(gpu.ecc), int(gpu.ecc_pending)]

    def device_set_ecc_mode(self, device: object, mode: int) -> None:
        """Set what it is after the next reset."""
        with self._store.write() as state:
            gpu_of(state, meaning(device, HandleKind.GPU)).ecc_pending = _boolean(mode)

    def device_get_power_management_limit(self, device: object) -> int:
        """In milliwatts."""
        gpu = self._gpu(device)
        return gpu.power_limit_mw or power_of(gpu.board).default

    def device_get_power_management_default_limit(self, device: object) -> int:
        """In milliwatts."""
        return power_of(self._gpu(device).board).default

    def device_get_power_management_limit_constraints(self, device: object) -> list[int]:
        """Lowest and highest, in milliwatts."""
        power = power_of(self._gpu(device).board)
        return [power.lowest, power.default]

    def device_set_power_management_limit(self, device: object, limit: int) -> None:
        """Set it, in milliwatts; at once."""
        with self._store.write() as state:
            gpu = gpu_of(state, meaning(device, HandleKind.GPU))
            power = power_of(gpu.board)
            if not power.lowest <= limit <= power.default:
                raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)
            gpu.power_limit_mw = limit

    def _gpu(self, device: object) -> SimulatedGpu:
        return gpu_of(self._store.read(), meaning(device, HandleKind.GPU))


def _boolean(mode: int) -> bool:
    if mode not in (0, 1):
        raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return bool(mode)
