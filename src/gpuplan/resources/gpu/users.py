"""Who uses a GPU or a slice: containers of this plan file, which follow a change, and strangers, who do not."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from gpuplan.resources.gpu import holders
from gpuplan.resources.gpu.observed import Compute, Container, Gpu, Instance, ObservedGpus, Process
from gpuplan.resources.gpu.placement.solve.solve import Hold
from gpuplan.types.snapshot import ProbeError


@dataclass(frozen=True)
class Users:
    """What uses something, in words."""

    ours: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    """Who keeps a GPU from being reset and computes nothing: daemons, monitors, kernel modules."""

    @property
    def all(self) -> tuple[str, ...]:
        """Everybody who uses it."""
        return (*self.ours, *self.strangers)

    def hold(self, made: bool) -> Hold:
        """How much speaks for leaving an instance with these users alone."""
        if self.strangers:
            return Hold.BUSY
        if not made:
            return Hold.UNMANAGED
        return Hold.SERVING if self.ours else Hold.IDLE


def of_instance(observed: ObservedGpus, gpu: Gpu, instance: Instance, plan: str) -> Users:
    """Who uses one slice: its processes, and the running containers that were given it."""
    running = [each for each in _processes(gpu) if _may_be_on(each, instance)]
    has = [each for each in observed.running.values() if set(each.devices) & set(instance.devices)]
    return _users(running, has, observed, plan)


def of_compute(observed: ObservedGpus, gpu: Gpu, instance: Instance, compute: Compute, plan: str) -> Users:
    """Who uses one compute instance of a slice."""
    running = [each for each in _processes(gpu) if _may_be_on(each, instance, compute.id)]
    has = [each for each in observed.running.values() if compute.uuid in each.devices]
    return _users(running, has, observed, plan)


def of_gpu(observed: ObservedGpus, gpu: Gpu, plan: str, stops: Collection[str] = ()) -> Users:
    """Who uses a GPU or any slice of it, and who holds it beside them; `stops` are services that will be stopped."""
    found = _users(_processes(gpu), _given(observed, gpu), observed, plan)
    return replace(found, holders=holders.of(observed, gpu, found.all, stops))


def running(observed: ObservedGpus, gpu: Gpu, instance: Instance | None, compute: int | None = None) -> tuple[str, ...]:
    """Whose processes run on an instance, or on one compute instance of it, or anywhere on the GPU."""
    there = [each for each in _processes(gpu) if instance is None or _may_be_on(each, instance, compute)]
    return _users(there, (), observed, "").strangers


def given(observed: ObservedGpus, gpu: Gpu, instance: Instance | None, compute: int | None = None) -> tuple[str, ...]:
    """Running containers that were given an instance, one compute instance of it, or anything of the GPU."""
    if instance is None:
        return _users((), _given(observed, gpu), observed, "").strangers
    devices = {each.uuid for each in instance.computes if compute is None or each.id == compute}
    has = [each for each in observed.running.values() if devices & set(each.devices)]
    return _users((), has, observed, "").strangers


def holding(observed: ObservedGpus, gpu: Gpu) -> tuple[str, ...]:
    """Everybody who keeps a GPU from being reset: whose processes run on it, daemons, kernel modules."""
    there = running(observed, gpu, None)
    return (*there, *holders.of(observed, gpu, there, ()))


def _given(observed: ObservedGpus, gpu: Gpu) -> list[Container]:
    names = {gpu.uuid, str(gpu.index), *_devices(gpu)}
    return [each for each in observed.running.values() if each.every or set(each.devices) & names]


def _processes(gpu: Gpu) -> tuple[Process, ...]:
    return () if isinstance(gpu.processes, ProbeError) else gpu.processes


def _may_be_on(process: Process, instance: Instance, compute: int | None = None) -> bool:
    """A process of which NVML does not say where it runs may be on any slice of its GPU."""
    if process.instance is None:
        return True
    return process.instance == instance.id and (compute is None or process.compute in (None, compute))


def _devices(gpu: Gpu) -> Iterable[str]:
    live = () if isinstance(gpu.instances, ProbeError) else gpu.instances
    return (device for instance in live for device in instance.devices)


def _users(running: Iterable[Process], given: Iterable[Container], observed: ObservedGpus, plan: str) -> Users:
    ours: dict[str, None] = {}
    strangers: dict[str, None] = {}
    for container in given:
        (ours if plan and container.plan == plan else strangers)[f"container {container.name}"] = None
    for process in running:
        home = observed.running.get(process.container or "")
        if home is not None:
            (ours if plan and home.plan == plan else strangers)[f"container {home.name}"] = None
        elif process.container:
            strangers[f"{process.name} (pid {process.pid}) in container {process.container[:12]}"] = None
        else:
            strangers[f"process {process.name} (pid {process.pid})"] = None
    return Users(tuple(ours), tuple(strangers))
