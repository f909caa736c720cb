"""The simulated libnvidia-ml: an object with pynvml's functions, structures, constants and errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import FunctionType

import pynvml

from gpuplan.simulation.nvml.create import Creation
from gpuplan.simulation.nvml.devices import Devices
from gpuplan.simulation.nvml.instances import Instances
from gpuplan.simulation.store import Store

_TEXTS = {19: "In use by another client", 23: "Insufficient Resources", 25: "Argument version mismatch"}
"""What nvmlErrorString of the real library says for codes whose words pynvml asks the library for."""
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class SimulatedNvml:
    """Stands in for the module pynvml on one node: nvmlDeviceGetUUID is `device_get_uuid` of one of its parts.

    `faults` gives functions an error code that they raise instead of doing anything.
    """

    def __init__(self, store: Store, faults: Mapping[str, int]) -> None:
        for code, text in _TEXTS.items():
            pynvml.NVMLError._errcode_to_string.setdefault(code, text)
        self._faults = faults
        self._parts = (Devices(store), Instances(store), Creation(store))

    def __getattr__(self, name: str) -> object:
        known = getattr(pynvml, name)
        if not isinstance(known, FunctionType) or not name.startswith("nvml"):
            return known
        if name in self._faults:
            return _failing(self._faults[name])
        own = _WORDS.sub("_", name.removeprefix("nvml")).lower()
        parts = [part for part in self._parts if hasattr(part, own)]
        return getattr(parts[0], own) if parts else _failing(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


def _failing(code: int) -> Callable[..., object]:
    def fail(*_arguments: object) -> object:
        raise pynvml.NVMLError(code)

    return fail
