"""Who holds a GPU without computing on it, so that it cannot be reset: daemons, monitors, kernel modules."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from gpuplan.resources.gpu.observed import Gpu, ObservedGpus, Process
from gpuplan.types.snapshot import ProbeError

MODULES = ("nvidia_drm",)
"""Kernel modules that hold every GPU while they are loaded, though no process shows (NVIDIA/mig-parted#181)."""


def of(observed: ObservedGpus, gpu: Gpu, known: Collection[str], stops: Collection[str]) -> tuple[str, ...]:
    """Their names; without who is `known` to use it already, and without services that will be stopped."""
    return tuple(dict.fromkeys(_of(observed, gpu, known, {name(each) for each in stops})))


def name(service: str) -> str:
    """A service without its ``.service``."""
    return service.removesuffix(".service")


def _of(observed: ObservedGpus, gpu: Gpu, known: Collection[str], stops: Collection[str]) -> Iterator[str]:
    computing = set() if isinstance(gpu.processes, ProbeError) else {each.pid for each in gpu.processes}
    for each in gpu.holders:
        called = _called(observed, each)
        if each.pid not in computing and called not in known and name(each.service) not in stops:
            yield called
    yield from (f"kernel module {each}" for each in MODULES if each in observed.modules)


def _called(observed: ObservedGpus, process: Process) -> str:
    home = observed.running.get(process.container or "")
    if home is not None:
        return f"container {home.name}"
    if process.container:
        return f"{process.name} (pid {process.pid}) in container {process.container[:12]}"
    if process.service:
        who = "" if process.name == name(process.service) else f"{process.name}, "
        return f"service {name(process.service)} ({who}pid {process.pid})"
    return f"process {process.name} (pid {process.pid})"
