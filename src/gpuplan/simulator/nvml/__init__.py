"""The simulated libnvidia-ml: an object with pynvml's functions, structures, constants and errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import FunctionType

import pynvml

from gpuplan.simulator.faults import NvmlFault
from gpuplan.simulator.nvml.changes import Creation, GpuSettingCalls
from gpuplan.simulator.nvml.devices import Devices
from gpuplan.simulator.nvml.instances import Instances
from gpuplan.simulator.nvml.lookup import HandleKind, meaning
from gpuplan.simulator.store import StateStore

_TEXTS = {19: "In use by another client", 23: "Insufficient Resources", 25: "Argument version mismatch"}
"""What nvmlErrorString of the real library says for codes whose words pynvml asks the library for."""
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class SimulatedNvml:
    """Stands in for the module pynvml on one node: nvmlDeviceGetUUID is `device_get_uuid` of one of its parts.

    `faults` gives functions an error code that they raise instead of doing anything, or lets them `hang`.
    """

    def __init__(self, store: StateStore, faults: Sequence[NvmlFault], hang: Callable[[], object]) -> None:
        for code, text in _TEXTS.items():
            pynvml.NVMLError._errcode_to_string.setdefault(code, text)
        self._faults = faults
        self._hang = hang
        self._parts = (Devices(store), GpuSettingCalls(store), Instances(store), Creation(store))

    def __getattr__(self, name: str) -> object:
        known = getattr(pynvml, name)
        if not isinstance(known, FunctionType) or not name.startswith("nvml"):
            return known
        own = _WORDS.sub("_", name.removeprefix("nvml")).lower()
        parts = [part for part in self._parts if hasattr(part, own)]
        call = getattr(parts[0], own) if parts else _failing(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        faults = [fault for fault in self._faults if fault.function == name]
        return self._faulty(call, faults) if faults else call

    def _faulty(self, call: Callable[..., object], faults: Sequence[NvmlFault]) -> Callable[..., object]:
        def obey(*arguments: object, **named: object) -> object:
            for fault in faults:
                if fault.gpu is not None and fault.gpu != _gpu_of(arguments):
                    continue
                if fault.code is None:
                    self._hang()
                else:
                    raise pynvml.NVMLError(fault.code)
            return call(*arguments, **named)

        return obey


def _gpu_of(arguments: Sequence[object]) -> int | None:
    """The GPU that a call is about: its first argument is an index, or a handle of something on it."""
    first = arguments[0] if arguments else None
    if first is None or isinstance(first, int):
        return first
    try:
        return meaning(first, *HandleKind).gpu
    except pynvml.NVMLError:
        return None


def _failing(code: int) -> Callable[..., object]:
    def fail(*_arguments: object) -> object:
        raise pynvml.NVMLError(code)

    return fail
