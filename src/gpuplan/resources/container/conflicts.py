"""Conflicts: what stands in the way of a container that is to be started, apart from other containers."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from gpuplan.resources.container.fields.conversion import newer_fields, observed_fields
from gpuplan.resources.container.fields.networking import clashes, host_ports, host_side
from gpuplan.resources.container.read import DeviceMemory, ObservedContainers
from gpuplan.resources.container.resolve import DesiredContainer, every, intrudes, seen
from gpuplan.resources.snapshot.devices import requested
from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.raw import texts
from gpuplan.types.address import Address
from gpuplan.types.change import Unmanaged
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.resource import DiffContext

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
    """More CPUs than the node has, which the engine refuses; more memory, and fields that it does not know."""
    engine, node = observed.engine, observed.node
    for wanted in starting:
        spec, name = wanted.spec, wanted.address.name
        if engine.cpus and spec.cpus is not None and spec.cpus > engine.cpus:
            detail = f"{name} is given {spec.cpus:g} CPUs, and {node} has {engine.cpus}."
            yield _Told(wanted).says("More CPUs than the node has", detail, f"State {engine.cpus} or less.")
        for key, api in newer_fields(spec, engine.api):
            detail = f"{name} states {key}, which needs API {api}; the engine on {node} speaks {engine.api}."
            fix = f"Upgrade Docker on {node}, or remove {key}."
            yield _Told(wanted).says("Docker engine is too old for a field", detail, fix)
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


def why_no_room(container: str, uuids: Collection[str], there: Mapping[str, DeviceMemory]) -> Iterator[str]:
    """Why a second one like this container has no room beside it, for each of these devices that has none."""
    for uuid in sorted(uuids):
        device = there.get(uuid)
        if device is None:
            continue
        used = device.held.get(container, 0)
        if device.exclusive and used:
            yield f"{uuid} is in compute mode exclusive_process, so that no second process can use it"
        elif used > device.free:
            yield f"the old one holds {_shown(used)} of {uuid}, and {_shown(device.free)} are free there"


def _shown(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def unmanaged_containers(
    observed: ObservedContainers, context: DiffContext, welcome: Mapping[str, Set[Address]], told: Set[str]
) -> Iterator[Unmanaged]:
    """All of them, each with what it sees of the plan file's GPUs.

    `welcome` are those that are as the plan file wants them, by id, with the GPUs and slices that it gives them; `told`
    are ids of those that are told of elsewhere.
    """
    for live in observed.containers:
        if live.plan != context.plan and live.id not in told:
            given = welcome.get(live.id)
            sees = tuple(each for each in intrudes(live, observed, context) if each not in (given or ()))
            address = Address(observed.node, "container", live.name)
            what = _what(live, observed) if given is None else _as_wanted(live)
            yield Unmanaged(address, what, sees=sees, as_wanted=given is not None)


def names_taken(observed: ObservedContainers, plan: str, making: Sequence[DesiredContainer]) -> Iterator[Diagnostic]:
    """Those that have the name of a container that is to be made, or to get its name back."""
    holders = {live.name: live for live in observed.containers if live.plan != plan}
    for wanted in making:
        if (holder := holders.get(wanted.address.name)) is not None and holder.id != wanted.adopts:
            yield name_taken(holder, wanted)


def ports_taken(
    observed: ObservedContainers, ours: Set[str], starting: Sequence[DesiredContainer]
) -> Iterator[Diagnostic]:
    """Those that hold a host port of a container that is to be started; `ours` are ids of those that do not count."""
    busy = [live for live in observed.containers if live.id not in ours and live.busy]
    for wanted in starting:
        ports = list(host_ports(wanted.spec.ports))
        for live in busy:
            held = list(held_ports(live))
            if taken := [port for port in ports if any(clashes(port, other) for other in held)]:
                yield _port_taken(live, wanted, taken)


def held_ports(live: Live) -> Iterable[str]:
    """The host ports that a container holds, or takes when it runs."""
    published = {
        path.removeprefix("ports."): texts(sides)
        for path, sides in observed_fields(live).items()
        if path.startswith("ports.")
    }
    return host_ports(published)


def name_taken(holder: Live, wanted: DesiredContainer) -> Diagnostic:
    """No step can be done as long as somebody else's container has the name."""
    name, node = holder.name, wanted.address.node
    return Diagnostic(
        "The container's name is taken",
        f"A container called {name} ({holder.image}, {holder.status}) is on {node}; {_maker(holder)} made it.",
        f"Choose another name in the plan file, or rename it on {node}:\n"
        f"    docker rename {shlex.quote(name)} {shlex.quote(f'{name}-before')}",
        where=wanted.desired.where,
        address=str(wanted.address),
    )


def _port_taken(holder: Live, wanted: DesiredContainer, taken: Sequence[str]) -> Diagnostic:
    name, node = holder.name, wanted.address.node
    return Diagnostic(
        "A host port is taken",
        f"The container {name} ({holder.image}) on {node}, which {_maker(holder)} made, holds {', '.join(taken)}, "
        f"which {wanted.address.name} publishes.",
        f"Publish another port, or stop it on {node}:\n    docker stop {shlex.quote(name)}",
        where=wanted.desired.where,
        address=str(wanted.address),
    )


def _maker(live: Live) -> str:
    return f"the plan file {live.plan}" if live.plan else "somebody else"


def _as_wanted(live: Live) -> str:
    return (
        f"container {live.name} ({live.image}) is as the plan file wants it; gpuplan did not make it, and leaves it "
        "alone (adopt: true replaces it by one of its own)"
    )


def _what(live: Live, observed: ObservedContainers) -> str:
    owner = f"the plan file {live.plan} made it, " if live.plan else ""
    devices = seen(live, observed)
    privileged = "privileged, " if live.host_config.get("Privileged") is True else ""
    if devices and ("all" in devices or devices >= every(observed)):
        sees = f", {privileged}sees every GPU of the node"
    else:
        sees = f", uses {', '.join(sorted(devices))}" if devices else ""
    return f"container {live.name} ({owner}{live.image}, {live.status}{sees})"
