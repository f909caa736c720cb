"""What containers do to GPUs: which devices a request means, and which processes so stand on which slice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuplan.simulator.state import NodeState, SimulatedContainer, items, mapping, number, texts

_TRITON_MIB = 512
_MODEL_MIB = 64
_OTHER_MIB = 256


class UnknownDevice(Exception):
    """A device request names a GPU or slice that the node does not have."""

    def __init__(self, device: str) -> None:
        self.device = device
        super().__init__(device)


@dataclass(frozen=True)
class GrantedDevice:
    """A GPU (instance and compute are None) or a slice of it."""

    gpu: int
    uuid: str
    instance: int | None = None
    compute: int | None = None


@dataclass(frozen=True)
class RunningContainer:
    """One process on a GPU."""

    pid: int
    name: str
    memory_mib: int
    device: GrantedDevice
    container: str | None = None


def requested(state: NodeState, container: SimulatedContainer) -> tuple[GrantedDevice, ...]:
    """The devices that the container asks for, in order.

    Raises:
        UnknownDevice: one of them is not there (any more).
    """
    granted: list[GrantedDevice] = []
    for request in map(mapping, items(container.host_config.get("DeviceRequests"))):
        if names := texts(request.get("DeviceIDs")):
            for name in names:
                granted.extend(_named(state, name))
        else:
            count = number(request.get("Count"))
            granted.extend(_all(state) if count < 0 else _all(state)[:count])
    return tuple(dict.fromkeys(granted))


def processes(state: NodeState) -> tuple[RunningContainer, ...]:
    """Every process on a GPU of the node."""
    other_processes = (
        RunningContainer(one.pid, one.name, one.memory_mib, GrantedDevice(one.gpu, "", one.instance, one.compute))
        for one in state.processes
    )
    return (*other_processes, *_of_containers(state))


def _of_containers(state: NodeState) -> Iterator[RunningContainer]:
    for container in state.containers.values():
        if not container.running or not container.host_config.get("DeviceRequests"):
            continue
        try:
            devices = requested(state, container)
        except UnknownDevice:
            continue
        for device in devices:
            gpu = state.gpus[device.gpu]
            if device.instance is None and gpu.mig:
                continue
            yield RunningContainer(
                container.pid, _program(state, container), _memory(state, container), device, container.id
            )


def _program(state: NodeState, container: SimulatedContainer) -> str:
    if container.id in state.servers:
        return "tritonserver"
    words = texts(container.config.get("Entrypoint")) + texts(container.config.get("Cmd"))
    return words[0].rpartition("/")[2] if words else "main"


def _memory(state: NodeState, container: SimulatedContainer) -> int:
    server = state.servers.get(container.id)
    if server is None:
        return _OTHER_MIB
    ready = sum(version.state == "READY" for model in server.models.values() for version in model.versions.values())
    return _TRITON_MIB + ready * _MODEL_MIB


def _all(state: NodeState) -> list[GrantedDevice]:
    """What `--gpus all` gives: whole GPUs, and of the divided ones their slices."""
    granted: list[GrantedDevice] = []
    for index, gpu in enumerate(state.gpus):
        granted.extend(_slices(state, index) if gpu.mig else [GrantedDevice(index, gpu.uuid)])
    return granted


def _slices(state: NodeState, index: int) -> list[GrantedDevice]:
    return [
        GrantedDevice(index, compute.uuid, instance.id, compute.id)
        for instance in state.gpus[index].instances
        for compute in instance.computes
    ]


def _named(state: NodeState, name: str) -> list[GrantedDevice]:
    """By UUID, by index (`0`), or by the position of a slice on its GPU (`0:1`), each also as a name of CDI."""
    name = name.removeprefix("nvidia.com/gpu=")
    for index, gpu in enumerate(state.gpus):
        slices = _slices(state, index)
        if name in (gpu.uuid, str(index)):
            return [GrantedDevice(index, gpu.uuid)]
        for position, device in enumerate(slices):
            if name in (device.uuid, f"{index}:{position}"):
                return [device]
    raise UnknownDevice(name)
