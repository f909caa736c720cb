"""The gpu probe: driver, GPUs, MIG and processes, read through NVML. One lost GPU does not hide the others."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Callable

from ..failure import Failure, explain, run_all
from ..world import World
from . import nvml as calls
from . import reset
from .nvml import instances, profiles

# Settings of a GPU besides MIG: what it has, what they may be, and setting one.

ARCHITECTURES = {5: "volta", 6: "turing", 7: "ampere", 8: "ada", 9: "hopper", 10: "blackwell"}
"""NVML_DEVICE_ARCH_* (nvml.h)."""
VIRTUALIZATION = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host_vgpu", 4: "host_vsga"}
"""NVML_GPU_VIRTUALIZATION_MODE_* (nvml.h)."""
COMPUTE_MODES = {0: "default", 2: "prohibited", 3: "exclusive_process"}
"""NVML_COMPUTEMODE_* (nvml.h); 1, one thread, is deprecated and no longer to be had."""


def settings(nvml: Any, device: Any) -> dict[str, object]:
    """What docs/snapshot.md says of them; None for what this GPU or this driver does not have."""

    def read(name: str) -> Any:
        return calls.optional(nvml, lambda: getattr(nvml, "nvmlDeviceGet" + name)(device))

    persistence, ecc, mode = read("PersistenceMode"), read("EccMode"), read("ComputeMode")
    bounds, default = read("PowerManagementLimitConstraints"), read("PowerManagementDefaultLimit")
    return {
        "architecture": ARCHITECTURES.get(read("Architecture")),
        "virtualization": VIRTUALIZATION.get(read("VirtualizationMode")),
        "persistence_mode": None if persistence is None else bool(persistence),
        "compute_mode": COMPUTE_MODES.get(mode),
        "power_limit_mw": read("PowerManagementLimit"),
        "power_limits_mw": None if bounds is None or default is None else _bounds(bounds, default),
        "ecc": None if ecc is None else {"current": bool(ecc[0]), "pending": bool(ecc[1])},
    }


def set_gpu(world: World, uuid: str, setting: str, value: object) -> dict[str, object]:
    """Set one. Whether it took effect is what the next snapshot says.

    Raises Failure `invalid` if there is no such setting, or the value is not one of it.
    """
    if setting not in SETTERS:
        raise Failure("invalid", "no such setting: {}".format(setting))
    function, number_of = SETTERS[setting]
    number = number_of(value)
    with calls.opened(world) as nvml:
        getattr(nvml, function)(nvml.nvmlDeviceGetHandleByUUID(uuid), number)
    return {}


def _bounds(bounds: Any, default: Any) -> dict[str, int]:
    lowest, highest = bounds
    return {"default": int(default), "lowest": int(lowest), "highest": int(highest)}


def _on_or_off(value: object) -> int:
    if not isinstance(value, bool):
        raise Failure("invalid", "value must be true or false")
    return int(value)


def _milliwatts(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Failure("invalid", "value must be a whole number")
    return value


def _compute_mode(value: object) -> int:
    for number, name in COMPUTE_MODES.items():
        if name == value:
            return number
    raise Failure("invalid", "no such compute mode: {}".format(value))


SETTERS: Mapping[str, tuple[str, Callable[[object], int]]] = {
    "persistence_mode": ("nvmlDeviceSetPersistenceMode", _on_or_off),
    "power_limit_mw": ("nvmlDeviceSetPowerManagementLimit", _milliwatts),
    "compute_mode": ("nvmlDeviceSetComputeMode", _compute_mode),
    "ecc": ("nvmlDeviceSetEccMode", _on_or_off),
}
"""Setting → NVML's function, and its argument from the request's `value`."""

PATIENCE = 10.0
"""Seconds that one GPU may take; less than the probe as a whole, so that the others are heard."""

NO_INSTANCE = 0xFFFFFFFF
"""What NVML writes for a process that runs in no MIG instance."""


def probe(world: World, patience: float | None = None) -> dict[str, object]:
    """The value of the probe `gpu`. A GPU that does not answer within `patience` seconds is skipped, and reported."""
    nvml = world.nvml()
    nvml.nvmlInit()
    hung = True
    try:
        version = nvml.nvmlSystemGetCudaDriverVersion()
        driver = calls.text(nvml.nvmlSystemGetDriverVersion())
        gpus = _all(world, nvml, PATIENCE if patience is None else patience)
        hung = any(_code(gpu) == "timeout" for gpu in gpus)
    except nvml.NVMLError:
        hung = False
        raise
    finally:
        if not hung:  # a session that a hanging call still uses is not to be ended under it
            nvml.nvmlShutdown()
    return {
        "driver": driver,
        "cuda": "{}.{}".format(version // 1000, version % 1000 // 10),
        "gpus": gpus,
        "stopped_services": reset.stopped_services(world.root),
    }


def _all(world: World, nvml: Any, patience: float) -> list[dict[str, object]]:
    """Every GPU, all asked at once; one that is lost or hangs hides none of the others."""
    holders = _holders(world)
    jobs = {
        "gpu-{}".format(index): functools.partial(_gpu, world, nvml, index, holders)
        for index in range(nvml.nvmlDeviceGetCount())
    }
    answers = run_all(jobs, dict.fromkeys(jobs, patience))
    return [_told(index, answers[name]) for index, name in enumerate(jobs)]


def _told(index: int, answer: Mapping[str, Any]) -> dict[str, object]:
    if "error" in answer:
        return {"index": index, "error": answer["error"]}
    value: dict[str, object] = answer["value"]
    return value


def _code(gpu: Mapping[str, Any]) -> object:
    return gpu["error"]["code"] if "error" in gpu else None


def _holders(world: World) -> Mapping[Any, Any]:
    """By minor number, who has each GPU open; an error if this user may not see it."""
    try:
        return world.holders()
    except (OSError, Failure) as error:
        return {"error": explain(error).to_json()}


def _gpu(world: World, nvml: Any, index: int, holders: Any) -> dict[str, object]:
    device = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(device)
    mode = _mig_mode(nvml, device)
    return {
        "index": index,
        "uuid": calls.text(nvml.nvmlDeviceGetUUID(device)),
        "pci": calls.text(nvml.nvmlDeviceGetPciInfo(device).busId),
        "name": calls.text(nvml.nvmlDeviceGetName(device)),
        "memory": {"total": int(memory.total), "used": int(memory.used), "free": int(memory.free)},
        "compute_capability": "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(device)),
        **settings(nvml, device),
        "mig": mode,
        "profiles": profiles(nvml, device, mode["current"]) if mode["supported"] else [],
        "instances": _part(nvml, lambda: instances(nvml, device)) if mode["current"] else [],
        "processes": _part(nvml, lambda: _processes(world, nvml, device)),
        "holders": _held(world, nvml, device, holders),
    }


def _held(world: World, nvml: Any, device: Any, holders: Any) -> object:
    if "error" in holders:
        return holders
    minor = calls.optional(nvml, lambda: nvml.nvmlDeviceGetMinorNumber(device))
    return [{"pid": pid, **world.process(pid)} for pid in holders.get(minor, ())]


def _mig_mode(nvml: Any, device: Any) -> dict[str, bool]:
    modes = calls.optional(nvml, lambda: nvml.nvmlDeviceGetMigMode(device))
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


def _processes(world: World, nvml: Any, device: Any) -> list[dict[str, object]]:
    """Compute and graphics processes of the whole GPU; NVML names the instance of each where MIG mode is on."""
    found: dict[tuple[int, int | None, int | None], dict[str, object]] = {}
    readers = (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses)
    for read in readers:
        for process in calls.optional(nvml, functools.partial(read, device)) or ():
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
