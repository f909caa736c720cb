"""Checks of a plan file against the inventory: patterns that match no node, and conflicts on one node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuplan.planfile.checks.references import nearest
from gpuplan.planfile.expand import PlacedContainer, containers_on, gpu_parts, matching_slices, on_node, patterns_of
from gpuplan.planfile.schema import ContainerSection, PlanFile
from gpuplan.resources.container.fields.networking import ServerPorts
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.inventory import Host, Inventory

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


def _names(plan: PlanFile, placed: tuple[PlacedContainer, ...]) -> Iterator[Diagnostic]:
    seen: dict[str, PlacedContainer] = {}
    for each in placed:
        other = seen.setdefault(each.name, each)
        if other is not each:
            detail = f"{_origin(other)} and {_origin(each)} both create a container named {each.name}."
            yield Diagnostic("Duplicate container name", detail, "Rename one of them.", plan.where(*each.path))


def _origin(placed: PlacedContainer) -> str:
    return ".".join(str(part) for part in placed.path)


def _ports(plan: PlanFile, placed: tuple[PlacedContainer, ...]) -> Iterator[Diagnostic]:
    taken: dict[tuple[int, str], list[tuple[str, PlacedContainer]]] = {}
    reported: set[tuple[object, object]] = set()
    for each in placed:
        for address, port, kind in host_ports(each):
            if port > 65535:
                detail = f"{each.name} would publish port {port}; the highest port is 65535."
                where = plan.where(*each.path, "ports")
                yield Diagnostic("Invalid port", detail, "Use a lower first port or a smaller step.", where)
            holders = taken.setdefault((port, kind), [])
            for other in [holder for other_address, holder in holders if _meet(address, other_address)]:
                if (other.path, each.path) not in reported:
                    reported.add((other.path, each.path))
                    yield _clash(plan, other, each, f"{port}/{kind}")
            holders.append((address, each))


def _meet(one: str, other: str) -> bool:
    return not one or not other or one == other


_STEP = "Add step: 10 to ports, so that each container gets its own ports."
_NO_STEP = "Publish only the container port (80), which takes any free host port, or use a network."


def _clash(plan: PlanFile, one: PlacedContainer, other: PlacedContainer, port: str) -> Diagnostic:
    detail, fix = f"{one.name} and {other.name} both publish {port} on the node.", "Give one of them another port."
    if one.name == other.name:
        detail = f"{one.name} publishes {port} twice."
    elif one.path == other.path:
        stepped = isinstance(other.container.ports, ServerPorts)
        fix = _STEP if stepped else _NO_STEP
    return Diagnostic("Host port conflict", detail, fix, plan.where(*other.path, "ports"))


def host_ports(placed: PlacedContainer) -> Iterator[HostPort]:
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


_SHOWN = 3
_NUMBER = re.compile(r"^([^/\[]+)\[\d+\]")


def check_nodes(plan: PlanFile, inventory: Inventory) -> tuple[Diagnostic, ...]:
    """What is wrong with the plan file on these nodes; a fault of many nodes is reported once, with their names.

    A glob that means no node is a warning, since an inventory may be a part of the fleet; a name is an error.
    """
    shared: dict[tuple[str, ...], list[Host]] = {}
    for host in inventory.hosts:
        shared.setdefault(_standing(plan, host), []).append(host)
    problems: list[Diagnostic] = list(_patterns(plan, inventory))
    for hosts in shared.values():
        names = _named(hosts)
        for fault in (*_references(plan, hosts[0]), *conflicts(plan, hosts[0])):
            detail = fault.detail.replace(f"({hosts[0].name})", f"({names})")
            problems.append(replace(fault, detail=detail, address=hosts[0].name if len(hosts) == 1 else ""))
    return tuple(dict.fromkeys(problems))


def _standing(plan: PlanFile, host: Host) -> tuple[str, ...]:
    """Which sections mean this node: nodes alike in that have the same faults."""
    gpus = (f"gpus.{name}" for name, gpu in plan.gpus.items() if on_node(gpu.nodes, host))
    containers = (f"containers.{name}" for name, each in plan.containers.items() if on_node(each.nodes, host))
    return (*gpus, *containers)


def _named(hosts: Sequence[Host]) -> str:
    shown = ", ".join(host.name for host in hosts[:_SHOWN])
    return shown if len(hosts) <= _SHOWN else f"{shown} and {len(hosts) - _SHOWN} more"


def _patterns(plan: PlanFile, inventory: Inventory) -> Iterator[Diagnostic]:
    names = [host.name for host in inventory.hosts]
    for kind, sections in (("gpus", plan.gpus), ("containers", plan.containers)):
        for name, section in sections.items():
            for number, pattern in enumerate(patterns_of(section.nodes)):
                if any(on_node(pattern, host) for host in inventory.hosts):
                    continue
                detail = f"{kind}.{name} is for {pattern!r}, which matches no node or group of the inventory."
                where = plan.where(kind, name, "nodes", *(() if isinstance(section.nodes, str) else (number,)))
                severity = Severity.WARNING if re.search(r"[*?\[]", pattern) else Severity.ERROR
                fix = nearest(pattern, [*inventory.groups, *names])
                yield Diagnostic("Pattern matches no node", detail, fix, where, severity=severity)


def _references(plan: PlanFile, host: Host) -> Iterator[Diagnostic]:
    here = gpu_parts(plan, host)
    for name, container in plan.containers.items():
        if not on_node(container.nodes, host):
            continue
        for number, reference in enumerate(container.gpus):
            if _NUMBER.sub(r"\1[*]", reference) not in here:
                where = plan.where("containers", name, "gpus", number)
                detail = f"{name} uses {reference}, which is not on all of its nodes ({host.name})."
                fix = f"There: {', '.join(here)}." if here else "Define a GPU with these nodes under gpus:."
                yield Diagnostic("GPU is on other nodes", detail, fix, where)
        yield from _each(plan, host, name, container)


def _each(plan: PlanFile, host: Host, name: str, container: ContainerSection) -> Iterator[Diagnostic]:
    if container.each is not None and not matching_slices(plan, host, container.each):
        detail = f"{container.each!r} of {name} matches no slice on some of its nodes ({host.name})."
        where = plan.where("containers", name, "each")
        yield Diagnostic(
            "each matches no slice", detail, "Add such a slice to a GPU of these nodes, or change nodes.", where
        )
