"""Checks of a plan file against the inventory: whether patterns mean nodes, and what stands on each of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuplan.planfile.checks.conflicts import conflicts
from gpuplan.planfile.checks.reference import nearest
from gpuplan.planfile.expand import matches
from gpuplan.planfile.schema import Container, PlanFile
from gpuplan.planfile.select import gpu_parts, on_node, patterns_of
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.inventory import Host, Inventory

_SHOWN = 3
_NUMBER = re.compile(r"^([^/\[]+)\[\d+\]")


def check_nodes(plan: PlanFile, inventory: Inventory) -> tuple[Diagnostic, ...]:
    """What is wrong with the plan file on these nodes; a fault that many nodes share is told once, with their names.

    A glob that means no node is a warning, since an inventory may be a part of the fleet; a name is an error.
    """
    shared: dict[tuple[str, ...], list[Host]] = {}
    for host in inventory.hosts:
        shared.setdefault(_standing(plan, host), []).append(host)
    told: list[Diagnostic] = list(_patterns(plan, inventory))
    for hosts in shared.values():
        names = _named(hosts)
        for fault in (*_references(plan, hosts[0]), *conflicts(plan, hosts[0])):
            detail = fault.detail.replace(f"({hosts[0].name})", f"({names})")
            told.append(replace(fault, detail=detail, address=hosts[0].name if len(hosts) == 1 else ""))
    return tuple(dict.fromkeys(told))


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
                detail = f"{kind}.{name} is for {pattern!r}, which is no node and no group of the inventory."
                where = plan.where(kind, name, "nodes", *(() if isinstance(section.nodes, str) else (number,)))
                severity = Severity.WARNING if re.search(r"[*?\[]", pattern) else Severity.ERROR
                fix = nearest(pattern, [*inventory.groups, *names])
                yield Diagnostic("A pattern means no node", detail, fix, where, severity=severity)


def _references(plan: PlanFile, host: Host) -> Iterator[Diagnostic]:
    here = gpu_parts(plan, host)
    for name, container in plan.containers.items():
        if not on_node(container.nodes, host):
            continue
        for number, reference in enumerate(container.gpus):
            if _NUMBER.sub(r"\1[*]", reference) not in here:
                where = plan.where("containers", name, "gpus", number)
                detail = f"{name} asks for {reference}, which is not on all of its nodes ({host.name})."
                fix = f"There: {', '.join(here)}." if here else "State a GPU with these nodes under gpus:."
                yield Diagnostic("A GPU is on other nodes", detail, fix, where)
        yield from _each(plan, host, name, container)


def _each(plan: PlanFile, host: Host, name: str, container: Container) -> Iterator[Diagnostic]:
    if container.each is not None and not matches(plan, host, container.each):
        detail = f"{container.each!r} of {name} matches no slice on some of its nodes ({host.name})."
        where = plan.where("containers", name, "each")
        yield Diagnostic("An each matches nothing", detail, "Cut a GPU of these nodes so, or name other nodes.", where)
