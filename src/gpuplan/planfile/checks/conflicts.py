"""What cannot stand on one node together: two names of one GPU, two containers of one name or one host port."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuplan.planfile.expand import Placed, containers_on
from gpuplan.planfile.schema import PlanFile
from gpuplan.planfile.select import on_node
from gpuplan.resources.container.fields.networking import ServerPorts
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.inventory import Host

HostPort = tuple[str, int, str]
"""Address ("" = all), port, protocol."""
_FORM = re.compile(
    r"^(?:(?P<address>\[[0-9A-Fa-f:.]+\]|[\d.]+):)?(?P<first>\d{1,5})(?:-(?P<last>\d{1,5}))?:\d+(?:-\d+)?(?:/(?P<kind>\w+))?$"
)
_WIDEST = 4096
"""Ports of one range that are compared."""


def conflicts(plan: PlanFile, host: Host) -> Iterator[Diagnostic]:
    """The conflicts on one node."""
    yield from _selectors(plan, host)
    placed = containers_on(plan, host)
    yield from _names(plan, placed)
    yield from _ports(plan, placed)


def _selectors(plan: PlanFile, host: Host) -> Iterator[Diagnostic]:
    here = {name: gpu for name, gpu in plan.gpus.items() if on_node(gpu.nodes, host)}
    first: dict[tuple[str, object], str] = {}
    for name, gpu in here.items():
        stated = (("all", True),) if gpu.select == "all" else tuple(gpu.select.model_dump(exclude_none=True).items())
        for selector in stated:
            other = first.setdefault(selector, name)
            if other != name:
                shown = "all" if gpu.select == "all" else f"{selector[0]} {selector[1]}"
                detail = f"{other} and {name} both select {shown} on the same nodes ({host.name})."
                where = plan.where("gpus", name, "select")
                yield Diagnostic("Two names for one GPU", detail, "Give each GPU one name.", where)
    everything = first.get(("all", True))
    for name, gpu in here.items():
        if everything and gpu.select != "all":
            detail = f"{everything} selects all GPUs of the nodes of {name} ({host.name})."
            where = plan.where("gpus", name, "select")
            yield Diagnostic("Two names for one GPU", detail, "Select all, or each GPU by itself.", where)


def _names(plan: PlanFile, placed: tuple[Placed, ...]) -> Iterator[Diagnostic]:
    seen: dict[str, Placed] = {}
    for each in placed:
        other = seen.setdefault(each.name, each)
        if other is not each:
            detail = f"{_origin(other)} and {_origin(each)} both give a container {each.name}."
            yield Diagnostic("Two containers have one name", detail, "Rename one of them.", plan.where(*each.path))


def _origin(placed: Placed) -> str:
    return ".".join(str(part) for part in placed.path)


def _ports(plan: PlanFile, placed: tuple[Placed, ...]) -> Iterator[Diagnostic]:
    taken: dict[tuple[int, str], list[tuple[str, Placed]]] = {}
    told: set[tuple[object, object]] = set()
    for each in placed:
        for address, port, kind in host_ports(each):
            if port > 65535:
                detail = f"{each.name} would publish port {port}, which does not exist."
                where = plan.where(*each.path, "ports")
                yield Diagnostic("A port does not exist", detail, "Begin lower, or make the step smaller.", where)
            holders = taken.setdefault((port, kind), [])
            for other in [holder for other_address, holder in holders if _meet(address, other_address)]:
                if (other.path, each.path) not in told:
                    told.add((other.path, each.path))
                    yield _clash(plan, other, each, f"{port}/{kind}")
            holders.append((address, each))


def _meet(one: str, other: str) -> bool:
    return not one or not other or one == other


_STEP = "Add step: 10 to the ports, so that each container has its own."
_NO_STEP = "Name the container's side alone (80, for any free port of the node), or put them on a network."


def _clash(plan: PlanFile, one: Placed, other: Placed, port: str) -> Diagnostic:
    detail, fix = f"{one.name} and {other.name} both publish {port} on the node.", "Give one of them another port."
    if one.name == other.name:
        detail = f"{one.name} publishes {port} twice."
    elif one.path == other.path:
        stepped = isinstance(other.container.ports, ServerPorts)
        fix = _STEP if stepped else _NO_STEP
    return Diagnostic("A host port is taken", detail, fix, plan.where(*other.path, "ports"))


def host_ports(placed: Placed) -> Iterator[HostPort]:
    """The host ports that a container publishes; forms that are not understood are left to the container room."""
    ports = placed.container.ports
    if isinstance(ports, ServerPorts):
        yield from (("", port, "tcp") for port in (ports.http, ports.grpc, ports.metrics) if port is not None)
        return
    for form in ports:
        match = _FORM.match(str(form))
        if match is None or int(match["last"] or 0) - int(match["first"]) > _WIDEST:
            continue
        address = (match["address"] or "").strip("[]")
        address = "" if address in ("0.0.0.0", "::") else address  # noqa: S104  what the plan file says, not a socket
        first, last = int(match["first"]), int(match["last"] or match["first"])
        yield from ((address, port, (match["kind"] or "tcp").lower()) for port in range(first, min(last, 65536) + 1))
