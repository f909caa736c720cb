"""Settings of a GPU beside MIG: what it has, what they may be, and setting one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from . import nvml as calls
from .arguments import Arguments
from .failure import Failure
from .world import World

ARCHITECTURES = {5: "volta", 6: "turing", 7: "ampere", 8: "ada", 9: "hopper", 10: "blackwell"}
"""NVML_DEVICE_ARCH_* (nvml.h)."""
VIRTUALIZATION = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host_vgpu", 4: "host_vsga"}
"""NVML_GPU_VIRTUALIZATION_MODE_* (nvml.h)."""
COMPUTE_MODES = {0: "default", 2: "prohibited", 3: "exclusive_process"}
"""NVML_COMPUTEMODE_* (nvml.h); 1, one thread, is deprecated and no longer to be had."""


def settings(nvml: Any, device: Any) -> dict[str, object]:
    """What docs/snapshot.md says of them; None for what this GPU or this driver does not have."""

    def read(name: str) -> Any:
        return calls.unless_absent(nvml, lambda: getattr(nvml, "nvmlDeviceGet" + name)(device))

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


def put(world: World, uuid: str, setting: str, arguments: Arguments) -> dict[str, object]:
    """Set one to the argument `value`; whether it is so is what the next look says."""
    if setting not in SETTERS:
        raise Failure("invalid", "no such setting: {}".format(setting))
    function, value_of = SETTERS[setting]
    value = value_of(arguments)
    with calls.opened(world) as nvml:
        getattr(nvml, function)(nvml.nvmlDeviceGetHandleByUUID(uuid), value)
    return {}


def _bounds(bounds: Any, default: Any) -> dict[str, int]:
    lowest, highest = bounds
    return {"default": int(default), "lowest": int(lowest), "highest": int(highest)}


def _compute_mode(arguments: Arguments) -> int:
    name = arguments.text("value")
    for number, known in COMPUTE_MODES.items():
        if known == name:
            return number
    raise Failure("invalid", "no such compute mode: {}".format(name))


SETTERS: Mapping[str, tuple[str, Callable[[Arguments], int]]] = {
    "persistence_mode": ("nvmlDeviceSetPersistenceMode", lambda a: int(a.flag("value"))),
    "power_limit_mw": ("nvmlDeviceSetPowerManagementLimit", lambda a: a.number("value")),
    "compute_mode": ("nvmlDeviceSetComputeMode", _compute_mode),
    "ecc": ("nvmlDeviceSetEccMode", lambda a: int(a.flag("value"))),
}
"""Setting → NVML's function, and its value out of the argument `value`."""
