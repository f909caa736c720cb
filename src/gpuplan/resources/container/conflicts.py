"""Conflicts: what stands in the way of a container that is to be started, apart from other containers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field

from gpuplan.resources.container.forms import clashes, host_ports, host_side
from gpuplan.resources.container.isolation import every
from gpuplan.resources.container.read import ObservedContainers
from gpuplan.resources.container.steps import DesiredContainer
from gpuplan.resources.snapshot.devices import requested
from gpuplan.types.diagnostic import Diagnostic, Severity

_PROXIES = ("docker-proxy", "rootlessport", "rootlesskit", "slirp4netns", "pasta", "conmon")
"""Processes that hold a port for a container, which is told by itself."""
_NO_NETWORKS = ("host", "none", "bridge", "default")


@dataclass(frozen=True)
class _Told:
    """One container that is to be started, as a diagnostic tells of it."""

    wanted: DesiredContainer
    severity: Severity = field(default=Severity.ERROR)

    def says(self, summary: str, detail: str, fix: str) -> Diagnostic:
        address = self.wanted.address
        return Diagnostic(summary, detail, fix, self.wanted.desired.where, str(address), self.severity)


def ports_listened_on(
    observed: ObservedContainers, ours: Set[str], starting: Sequence[DesiredContainer]
) -> Iterator[Diagnostic]:
    """Host ports on which a process of the node listens; those of containers with the ids of `ours` do not count."""
    others = [each for each in observed.listeners if each.name not in _PROXIES and each.container not in ours]
    for wanted in starting:
        for port in host_ports(wanted.spec.ports):
            holder = next(
                (each for each in others if clashes(port, _port(each.address, each.port, each.protocol))), None
            )
            if holder is not None:
                yield _Told(wanted).says(
                    "A host port is taken",
                    f"{holder.words} listens on {port} of {observed.node}, which {wanted.address.name} publishes.",
                    "Publish another port, or stop what listens there.",
                )


def networks_missing(observed: ObservedContainers, making: Sequence[DesiredContainer]) -> Iterator[Diagnostic]:
    """Networks that are not on the node; gpuplan makes none."""
    if not observed.networks:
        return
    known = {*observed.networks, *observed.networks.values(), *_NO_NETWORKS}
    for wanted in making:
        for name in (*wanted.spec.networks, *([wanted.spec.network] if wanted.spec.network else [])):
            if name not in known:
                there = ", ".join(sorted(set(observed.networks.values()) - set(_NO_NETWORKS))) or "none but its own"
                yield _Told(wanted).says(
                    "A network is not on the node",
                    f"{wanted.address.name} is to be on {name}; the engine on {observed.node} has {there}.",
                    f"Make it there first:\n    docker network create {name}",
                )


def beyond_the_node(observed: ObservedContainers, starting: Sequence[DesiredContainer]) -> Iterator[Diagnostic]:
    """More processors than the node has, which the engine refuses; more memory, which it does not."""
    engine, node = observed.engine, observed.node
    for wanted in starting:
        spec, name = wanted.spec, wanted.address.name
        if engine.cpus and spec.cpus is not None and spec.cpus > engine.cpus:
            detail = f"{name} is given {spec.cpus:g} CPUs, and {node} has {engine.cpus}."
            yield _Told(wanted).says("More CPUs than the node has", detail, f"State {engine.cpus} or less.")
        for what, size in (("memory", spec.memory), ("shm_size", spec.shm_size)):
            if engine.memory and size is not None and size > engine.memory:
                detail = f"{what} of {name} is {_gib(size)}, and {node} has {_gib(engine.memory)} of main memory."
                yield _Told(wanted, Severity.WARNING).says(
                    "More memory than the node has", detail, "State less: a limit that is never reached limits nothing."
                )


def devices_in_use(
    observed: ObservedContainers, ours: Set[str], starting: Sequence[DesiredContainer]
) -> Iterator[Diagnostic]:
    """GPUs and slices that somebody else computes on, or that another container was given by name."""
    for wanted in starting:
        for part, uuid in wanted.bound.devices.items():
            if holders := _holders(str(uuid), observed, ours):
                detail = f"{part.name} ({uuid}) on {observed.node} is in use by {', '.join(holders)}."
                fix = (
                    f"{wanted.address.name} will share it and its memory with them: stop them, or give it another GPU."
                )
                yield _Told(wanted, Severity.WARNING).says("A GPU of the container is in use", detail, fix)


def _holders(uuid: str, observed: ObservedContainers, ours: Set[str]) -> Sequence[str]:
    names = {live.id: live.name for live in observed.containers}
    found: dict[str, None] = {}
    for live in observed.containers:
        devices = requested(live.config, live.host_config, observed.default_runtime, observed.gpus)
        if live.busy and live.id not in ours and uuid in devices and devices < every(observed):
            found[f"container {live.name}"] = None
    for each in observed.processes:
        if each.device == uuid and each.container not in ours:
            home = names.get(each.container)
            found[f"container {home}" if home else f"the process {each.name} (pid {each.pid})"] = None
    return tuple(found)


def _port(address: str, port: int, protocol: str) -> str:
    return f"{host_side('' if address == '::' else address, str(port))}/{protocol}"


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
