"""The gpu probe: driver, GPUs, MIG and processes, read through NVML. One lost GPU does not hide the others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from . import nvml as calls
from .failure import explain
from .instances import instances, profiles
from .world import World

NO_INSTANCE = 0xFFFFFFFF
"""What NVML writes for a process that runs in no MIG instance."""


def probe(world: World) -> dict[str, object]:
    """The value of the probe `gpu`."""
    with calls.opened(world) as nvml:
        version = nvml.nvmlSystemGetCudaDriverVersion()
        return {
            "driver": calls.text(nvml.nvmlSystemGetDriverVersion()),
            "cuda": "{}.{}".format(version // 1000, version % 1000 // 10),
            "gpus": [_gpu_or_error(world, nvml, index) for index in range(nvml.nvmlDeviceGetCount())],
        }


def _gpu_or_error(world: World, nvml: Any, index: int) -> dict[str, object]:
    try:
        return _gpu(world, nvml, index)
    except nvml.NVMLError as error:
        return {"index": index, "error": explain(error).to_json()}


def _gpu(world: World, nvml: Any, index: int) -> dict[str, object]:
    device = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(device)
    mode = _mig_mode(nvml, device)
    persistence = _unless_absent(nvml, lambda: nvml.nvmlDeviceGetPersistenceMode(device))
    return {
        "index": index,
        "uuid": calls.text(nvml.nvmlDeviceGetUUID(device)),
        "pci": calls.text(nvml.nvmlDeviceGetPciInfo(device).busId),
        "name": calls.text(nvml.nvmlDeviceGetName(device)),
        "memory": {"total": int(memory.total), "used": int(memory.used), "free": int(memory.free)},
        "compute_capability": "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(device)),
        "persistence_mode": None if persistence is None else bool(persistence),
        "power_limit_mw": _unless_absent(nvml, lambda: nvml.nvmlDeviceGetPowerManagementLimit(device)),
        "mig": mode,
        "profiles": profiles(nvml, device, mode["current"]) if mode["supported"] else [],
        "instances": _part(nvml, lambda: instances(nvml, device)) if mode["current"] else [],
        "processes": _part(nvml, lambda: _processes(world, nvml, device)),
    }


def _mig_mode(nvml: Any, device: Any) -> dict[str, bool]:
    modes = _unless_absent(nvml, lambda: nvml.nvmlDeviceGetMigMode(device))
    if modes is None:
        return {"supported": False, "current": False, "pending": False}
    current, pending = modes
    return {"supported": True, "current": bool(current), "pending": bool(pending)}


def _part(nvml: Any, read: Callable[[], list[dict[str, object]]]) -> object:
    """A part that may be withheld (listing instances needs root) without hiding the rest; a lost GPU is lost."""
    try:
        return read()
    except nvml.NVMLError as error:
        failure = explain(error)
        if failure.code == "gpu_is_lost":
            raise
        return {"error": failure.to_json()}


def _unless_absent(nvml: Any, read: Callable[[], Any]) -> Any:
    """A property that not every GPU has; None where this one has not."""
    try:
        return read()
    except nvml.NVMLError as error:
        if calls.absent(error):
            return None
        raise


def _processes(world: World, nvml: Any, device: Any) -> list[dict[str, object]]:
    """Compute and graphics processes of the whole GPU; NVML names the instance of each where MIG mode is on."""
    found: dict[tuple[int, int | None, int | None], dict[str, object]] = {}
    readers = (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses)
    for read in readers:
        for process in _unless_absent(nvml, functools.partial(read, device)) or ():
            place = _instance(process.gpuInstanceId), _instance(process.computeInstanceId)
            found[(process.pid, *place)] = {
                "pid": int(process.pid),
                **world.process(int(process.pid)),
                "used_memory": None if process.usedGpuMemory is None else int(process.usedGpuMemory),
                "gpu_instance": place[0],
                "compute_instance": place[1],
            }
    return list(found.values())


def _instance(number: int | None) -> int | None:
    return None if number is None or number == NO_INSTANCE else int(number)
