"""NVML's questions about the system, its GPUs and the processes on them."""

from __future__ import annotations

import pynvml

from gpuplan.simulator.devices import processes
from gpuplan.simulator.nvml.lookup import (
    HandleKind,
    Meaning,
    compute_of,
    error,
    gpu_of,
    handle,
    instance_of,
    meaning,
    profile_of,
)
from gpuplan.simulator.state import board_of
from gpuplan.simulator.store import StateStore

_MIB = 1024 * 1024
_RESERVED_MIB = 600
_NO_INSTANCE = 0xFFFFFFFF


class Devices:
    """Questions that change nothing."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    def init(self) -> None:
        """Begin; a simulated driver is always loaded."""

    def init_with_flags(self, _flags: int) -> None:
        """Begin."""

    def shutdown(self) -> None:
        """End."""

    def system_get_driver_version(self) -> str:
        """Version of the driver."""
        return self._store.read().driver

    def system_get_nvmlversion(self) -> str:
        """Version of the library."""
        state = self._store.read()
        return f"{state.cuda.partition('.')[0]}.{state.driver}"

    def system_get_cuda_driver_version(self) -> int:
        """Newest CUDA version, such as 12080."""
        major, _, minor = self._store.read().cuda.partition(".")
        return int(major) * 1000 + int(minor) * 10

    def system_get_cuda_driver_version_v2(self) -> int:
        """Newest CUDA version."""
        return self.system_get_cuda_driver_version()

    def device_get_count(self) -> int:
        """How many GPUs there are."""
        return len(self._store.read().gpus)

    def device_get_handle_by_index(self, index: int) -> object:
        """The GPU of an index."""
        if not 0 <= index < self.device_get_count():
            raise error(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return handle(HandleKind.GPU, index)

    def device_get_handle_by_uuid(self, uuid: str | bytes) -> object:
        """The GPU or MIG device of a UUID."""
        wanted = uuid.decode() if isinstance(uuid, bytes) else uuid
        for index, gpu in enumerate(self._store.read().gpus):
            if gpu.uuid == wanted:
                return handle(HandleKind.GPU, index)
            for instance in gpu.instances:
                for compute in instance.computes:
                    if compute.uuid == wanted:
                        return handle(HandleKind.MIG_DEVICE, index, instance.id, compute.id)
        raise error(pynvml.NVML_ERROR_NOT_FOUND)

    def device_get_handle_by_pci_bus_id(self, bus: str | bytes) -> object:
        """The GPU of a PCI bus id."""
        wanted = bus.decode() if isinstance(bus, bytes) else bus
        for index, gpu in enumerate(self._store.read().gpus):
            if gpu.pci.lower().endswith(wanted.lower().lstrip("0:")):
                return handle(HandleKind.GPU, index)
        raise error(pynvml.NVML_ERROR_NOT_FOUND)

    def device_get_index(self, device: object) -> int:
        """Index of a GPU."""
        return self._meaning(device).gpu

    def device_get_minor_number(self, device: object) -> int:
        """Number of /dev/nvidiaN."""
        return meaning(device, HandleKind.GPU).gpu

    def device_get_uuid(self, device: object) -> str:
        """UUID of a GPU or MIG device."""
        known, state = self._meaning(device), self._store.read()
        return compute_of(state, known).uuid if known.kind is HandleKind.MIG_DEVICE else gpu_of(state, known).uuid

    def device_get_name(self, device: object) -> str:
        """Product name; of a MIG device with its profile."""
        known, state = self._meaning(device), self._store.read()
        name = board_of(gpu_of(state, known)).product_name
        if known.kind is not HandleKind.MIG_DEVICE:
            return name
        return f"{name} MIG {profile_of(state, known, instance_of(state, known).profile_id).name}"

    def device_get_pci_info(self, device: object) -> object:
        """PCI address."""
        pci = gpu_of(self._store.read(), self._meaning(device)).pci
        domain, bus, rest = pci.split(":")
        info = pynvml.nvmlPciInfo_t()
        info.domain, info.bus, info.device = int(domain, 16), int(bus, 16), int(rest[:2], 16)
        info.busId, info.busIdLegacy = pci.encode(), pci[4:].encode()
        return info

    def device_get_pci_info_v3(self, device: object) -> object:
        """PCI address."""
        return self.device_get_pci_info(device)

    def device_get_memory_info(self, device: object, version: int | None = None) -> object:
        """Memory of a GPU or MIG device, in bytes."""
        known, state = self._meaning(device), self._store.read()
        gpu = gpu_of(state, known)
        whole = known.kind is HandleKind.GPU
        if whole:
            total = board_of(gpu).memory_mib
        else:
            total = profile_of(state, known, instance_of(state, known).profile_id).memory_mib
        used = sum(
            one.memory_mib
            for one in processes(state)
            if one.device.gpu == known.gpu and (whole or one.device.instance == known.instance)
        )
        reserved = _RESERVED_MIB if whole else 0
        info = pynvml.c_nvmlMemory_v2_t() if version else pynvml.c_nvmlMemory_t()
        info.total, info.free = total * _MIB, (total - used - reserved) * _MIB
        info.used = (used if version else used + reserved) * _MIB
        if version:
            info.version, info.reserved = version, reserved * _MIB
        return info

    def device_get_cuda_compute_capability(self, device: object) -> tuple[int, int]:
        """Compute capability, major and minor."""
        major, _, minor = board_of(gpu_of(self._store.read(), self._meaning(device))).compute_capability.partition(".")
        return int(major), int(minor)

    def device_get_compute_running_processes(self, device: object) -> list[object]:
        """Processes with a CUDA context on a GPU or MIG device."""
        known = self._meaning(device)
        infos = []
        for one in processes(self._store.read()):
            place = one.device
            whole = known.kind is HandleKind.GPU or (place.instance, place.compute) == (known.instance, known.compute)
            if place.gpu == known.gpu and whole:
                info = pynvml.c_nvmlProcessInfo_v3_t()
                info.pid, info.usedGpuMemory = one.pid, one.memory_mib * _MIB
                info.gpuInstanceId = _NO_INSTANCE if place.instance is None else place.instance
                info.computeInstanceId = _NO_INSTANCE if place.compute is None else place.compute
                infos.append(pynvml.nvmlStructToFriendlyObject(info))
        return infos

    def device_get_compute_running_processes_v3(self, device: object) -> list[object]:
        """Processes with a CUDA context."""
        return self.device_get_compute_running_processes(device)

    def device_get_graphics_running_processes(self, device: object) -> list[object]:
        """Processes with a graphics context; there are none."""
        self._meaning(device)
        return []

    def device_get_graphics_running_processes_v3(self, device: object) -> list[object]:
        """Processes with a graphics context; there are none."""
        return self.device_get_graphics_running_processes(device)

    def _meaning(self, device: object) -> Meaning:
        return meaning(device, HandleKind.GPU, HandleKind.MIG_DEVICE)
