"""Node: who listens on its ports, and who computes on its GPUs, as its snapshot tells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuplan.resources.snapshot.raw import mapping, mappings, whole
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import JsonObject


@dataclass(frozen=True)
class Listener:
    """A port on which a process of the node listens."""

    address: str
    port: int
    protocol: str
    pid: int
    """0 where the agent's user may not see whose it is."""
    name: str
    container: str
    """Id of its container; empty where it is in none, or not known to be."""

    @property
    def words(self) -> str:
        """What it is called in a message; some write more than their name there."""
        name = next(iter(self.name.split()), "")
        return f"The process {name} (pid {self.pid})" if self.pid else "A process"


@dataclass(frozen=True)
class GpuProcess:
    """A process that computes on a GPU or slice."""

    device: str
    """UUID."""
    pid: int
    name: str
    container: str


def read_listeners(snapshot: Snapshot) -> tuple[Listener, ...]:
    """Nothing where the node was not asked."""
    return tuple(
        Listener(
            address=str(each.get("address") or ""),
            port=whole(each.get("port")),
            protocol=str(each.get("protocol") or "tcp"),
            pid=whole(each.get("pid")),
            name=str(each.get("name") or ""),
            container=str(each.get("container") or ""),
        )
        for each in mappings(mapping(snapshot.probe("host").value).get("listening"))
    )


def read_processes(snapshot: Snapshot) -> tuple[GpuProcess, ...]:
    """Those of GPUs that answered; one of which NVML does not say where it runs is on the GPU as a whole."""
    gpus = mappings(mapping(snapshot.probe("gpu").value).get("gpus"))
    return tuple(process for gpu in gpus for process in _of(gpu))


def _of(gpu: JsonObject) -> Iterator[GpuProcess]:
    slices = {
        (instance.get("id"), compute.get("id")): str(compute.get("uuid") or "")
        for instance in mappings(gpu.get("instances"))
        for compute in mappings(instance.get("compute_instances"))
    }
    for each in mappings(gpu.get("processes")):
        place = (each.get("gpu_instance"), each.get("compute_instance"))
        yield GpuProcess(
            device=slices.get(place, str(gpu.get("uuid") or "")),
            pid=whole(each.get("pid")),
            name=str(each.get("name") or ""),
            container=str(each.get("container") or ""),
        )
