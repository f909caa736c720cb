"""Strangers: the containers that this plan file did not make, and which of them make its wishes impossible."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from gpuplan.resources.container.forms import clashes, host_ports
from gpuplan.resources.container.isolation import every, intrudes, seen
from gpuplan.resources.container.livefields import live_fields
from gpuplan.resources.container.read import ObservedContainers
from gpuplan.resources.container.steps import DesiredContainer
from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.raw import texts
from gpuplan.types.address import Address
from gpuplan.types.change import Unmanaged
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.resource import DiffContext


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
        for path, sides in live_fields(live).items()
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
