"""Strangers: the containers that this plan file did not make, and whom they are in the way of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpuplan.kinds.container.canonical import live_fields
from gpuplan.kinds.container.devices import requested
from gpuplan.kinds.container.ports import clashes, host_ports
from gpuplan.kinds.container.raw import texts
from gpuplan.kinds.container.read import Live, Observed
from gpuplan.kinds.container.steps import Wanted
from gpuplan.model.address import Address
from gpuplan.model.change import Unmanaged

GUARD = "unmanaged-container"


def strangers(observed: Observed, plan: str, starting: Sequence[Wanted]) -> Iterator[Unmanaged]:
    """All of them; `starting` are the wanted containers that this change set is going to make or start."""
    for live in observed.containers:
        if live.plan == plan:
            continue
        address = Address(observed.node, "container", live.name)
        blocked = [(wanted, why) for wanted in starting if (why := _in_the_way(live, wanted))]
        for wanted, why in blocked:
            yield Unmanaged(address, f"{_what(live, observed)} {why}", wanted.address, GUARD)
        if not blocked:
            yield Unmanaged(address, _what(live, observed))


def held_ports(live: Live) -> Iterable[str]:
    """The host ports that a container holds, or takes when it runs."""
    published = {
        path.removeprefix("ports."): texts(sides)
        for path, sides in live_fields(live, None).items()
        if path.startswith("ports.")
    }
    return host_ports(published)


def _in_the_way(live: Live, wanted: Wanted) -> str:
    if live.name == wanted.address.name:
        return "has that name"
    if not live.busy:
        return ""
    ports = list(host_ports(wanted.spec.ports))
    taken = [port for port in held_ports(live) if any(clashes(port, other) for other in ports)]
    return f"holds the host port {', '.join(taken)}" if taken else ""


def _what(live: Live, observed: Observed) -> str:
    owner = f"the plan file {live.plan} made it, " if live.plan else ""
    devices = requested(live.config, live.host_config, observed.default_runtime, observed.gpus)
    usable = {uuid for gpu in observed.gpus.gpus for uuid in gpu.usable}
    if devices and ("all" in devices or devices >= usable):
        sees = ", sees every GPU of the node"
    else:
        sees = f", uses {', '.join(sorted(devices))}" if devices else ""
    return f"container {live.name} ({owner}{live.image}, {live.status}{sees})"
