"""Who uses a GPU or a slice: managed containers, which follow a change, and others, which a guard protects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from gpuplan.resources.gpu.observed import GpuContainer, GpuInstance, ObservedGpu, ObservedGpus, ObservedProcess

HOLDING_MODULES = ("nvidia_drm",)
"""Kernel modules that hold every GPU while they are loaded, though no process shows (NVIDIA/mig-parted#181)."""


@dataclass(frozen=True)
class Users:
    """What uses something, as messages name it."""

    managed: tuple[str, ...] = ()
    """Containers of this plan file."""
    others: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    """What keeps a GPU from being reset without computing on it: daemons, monitors, kernel modules."""

    @property
    def all(self) -> tuple[str, ...]:
        """Everything that computes on it or may."""
        return (*self.managed, *self.others)


def users_of_instance(
    observed: ObservedGpus, gpu: ObservedGpu, instance: GpuInstance, plan: str, compute: int | None = None
) -> Users:
    """Who uses one slice, or one compute instance of it: its processes, and the running containers that have it."""
    processes = _processes_on(gpu, instance, compute)
    return _users(processes, _containers_with(observed, instance, compute), observed, plan)


def users_of_gpu(observed: ObservedGpus, gpu: ObservedGpu, plan: str, stop_services: Collection[str] = ()) -> Users:
    """Who uses a GPU or any slice of it, and who holds it; `stop_services` will be stopped and do not count."""
    users = _users(gpu.known_processes, _containers_on(observed, gpu), observed, plan)
    return replace(users, holders=_holders(observed, gpu, users.all, stop_services))


def current_users(
    observed: ObservedGpus,
    gpu: ObservedGpu,
    instance: GpuInstance | None,
    compute: int | None,
    allowed: Collection[str],
) -> tuple[str, ...]:
    """Who uses an instance, one compute instance of it, or anything of the GPU: a last look before it goes.

    Processes always count; an idle container does not if it is `allowed`: those that a guard was lifted for.
    """
    processes: Iterable[ObservedProcess] = gpu.known_processes
    if instance is None:
        containers = _containers_on(observed, gpu)
    else:
        processes, containers = _processes_on(gpu, instance, compute), _containers_with(observed, instance, compute)
    idle = [name for name in _users((), containers, observed, "").others if name not in allowed]
    return tuple(dict.fromkeys((*_users(processes, (), observed, "").others, *idle)))


def holders_of(observed: ObservedGpus, gpu: ObservedGpu) -> tuple[str, ...]:
    """Everything that keeps a GPU from being reset: processes on it, daemons, kernel modules."""
    running = _users(gpu.known_processes, (), observed, "").others
    return (*running, *_holders(observed, gpu, running, ()))


def _holders(
    observed: ObservedGpus, gpu: ObservedGpu, users: Collection[str], stop_services: Collection[str]
) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_named_holders(observed, gpu, users, {unit_name(name) for name in stop_services})))


def _named_holders(
    observed: ObservedGpus, gpu: ObservedGpu, users: Collection[str], stopped: Collection[str]
) -> Iterator[str]:
    computing = {process.pid for process in gpu.known_processes}
    for process in gpu.holders:
        name = _holder_name(observed, process)
        if process.pid not in computing and name not in users and unit_name(process.service) not in stopped:
            yield name
    yield from (f"kernel module {module}" for module in HOLDING_MODULES if module in observed.modules)


def unit_name(service: str) -> str:
    """A service without its ``.service``."""
    return service.removesuffix(".service")


def _holder_name(observed: ObservedGpus, process: ObservedProcess) -> str:
    if process.service and not process.container:
        program = "" if process.name == unit_name(process.service) else f"{process.name}, "
        return f"service {unit_name(process.service)} ({program}pid {process.pid})"
    return _process_name(observed, process)


def _process_name(observed: ObservedGpus, process: ObservedProcess) -> str:
    container = observed.known_containers.get(process.container or "")
    if container is not None:
        return f"container {container.name}"
    if process.container:
        return f"{process.name} (pid {process.pid}) in container {process.container[:12]}"
    return f"process {process.name} (pid {process.pid})"


def _processes_on(gpu: ObservedGpu, instance: GpuInstance, compute: int | None) -> list[ObservedProcess]:
    """A process whose instance NVML does not report may be on any slice of its GPU."""
    return [
        process
        for process in gpu.known_processes
        if process.gpu_instance is None
        or (process.gpu_instance == instance.id and (compute is None or process.compute_instance in (None, compute)))
    ]


def _containers_with(observed: ObservedGpus, instance: GpuInstance, compute: int | None) -> list[GpuContainer]:
    devices = {device.uuid for device in instance.compute_instances if compute in (None, device.id)}
    return [container for container in observed.known_containers.values() if devices & set(container.devices)]


def _containers_on(observed: ObservedGpus, gpu: ObservedGpu) -> list[GpuContainer]:
    devices = {device for instance in gpu.known_instances for device in instance.devices}
    names = {gpu.uuid, str(gpu.index), *devices}
    containers = observed.known_containers.values()
    return [container for container in containers if container.all_gpus or set(container.devices) & names]


def _users(
    processes: Iterable[ObservedProcess], containers: Iterable[GpuContainer], observed: ObservedGpus, plan: str
) -> Users:
    is_managed: dict[str, bool] = {}
    for container in containers:
        is_managed[f"container {container.name}"] = bool(plan) and container.plan == plan
    for process in processes:
        owner = observed.known_containers.get(process.container or "")
        is_managed[_process_name(observed, process)] = owner is not None and bool(plan) and owner.plan == plan
    return Users(
        tuple(name for name, managed in is_managed.items() if managed),
        tuple(name for name, managed in is_managed.items() if not managed),
    )
