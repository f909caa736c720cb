"""NVML's settings of a GPU beside MIG: persistence, power limit, compute mode, ECC, and what it says of itself."""

from __future__ import annotations

import pynvml

from gpuplan.simulator.hardware import board_of
from gpuplan.simulator.nvml.handles import Kind, meaning
from gpuplan.simulator.nvml.lookup import error, gpu_of
from gpuplan.simulator.power import power_of
from gpuplan.simulator.state import Gpu
from gpuplan.simulator.store import Store

_ARCHITECTURES = {"ampere": 7, "hopper": 9, "blackwell": 10}
_VIRTUALIZATION = {"none": 0, "passthrough": 1, "vgpu": 2, "host_vgpu": 3, "host_vsga": 4}
_COMPUTE_MODES = (0, 2, 3)


class Settings:
    """Settings of a GPU."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def device_get_architecture(self, device: object) -> int:
        """NVML_DEVICE_ARCH_*."""
        return _ARCHITECTURES.get(board_of(self._gpu(device)).architecture, 0xFFFFFFFF)

    def device_get_virtualization_mode(self, device: object) -> int:
        """NVML_GPU_VIRTUALIZATION_MODE_*."""
        self._gpu(device)
        return _VIRTUALIZATION[self._store.read().virtualization]

    def device_get_persistence_mode(self, device: object) -> int:
        """Whether the driver keeps the GPU initialised while nobody uses it."""
        return int(self._gpu(device).persistence)

    def device_set_persistence_mode(self, device: object, mode: int) -> None:
        """Set it; at once."""
        with self._store.write() as state:
            gpu_of(state, meaning(device, Kind.GPU)).persistence = _boolean(mode)

    def device_get_compute_mode(self, device: object) -> int:
        """NVML_COMPUTEMODE_*."""
        return self._gpu(device).compute_mode

    def device_set_compute_mode(self, device: object, mode: int) -> None:
        """Set it; at once."""
        if mode not in _COMPUTE_MODES:
            raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        with self._store.write() as state:
            gpu_of(state, meaning(device, Kind.GPU)).compute_mode = mode

    def device_get_ecc_mode(self, device: object) -> list[int]:
        """Current and pending."""
        gpu = self._gpu(device)
        return [int(gpu.ecc), int(gpu.ecc_pending)]

    def device_set_ecc_mode(self, device: object, mode: int) -> None:
        """Set what it is after the next reset."""
        with self._store.write() as state:
            gpu_of(state, meaning(device, Kind.GPU)).ecc_pending = _boolean(mode)

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
            gpu = gpu_of(state, meaning(device, Kind.GPU))
            power = power_of(gpu.board)
            if not power.lowest <= limit <= power.default:
                raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)
            gpu.power_limit_mw = limit

    def _gpu(self, device: object) -> Gpu:
        return gpu_of(self._store.read(), meaning(device, Kind.GPU))


def _boolean(mode: int) -> bool:
    if mode not in (0, 1):
        raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return bool(mode)
