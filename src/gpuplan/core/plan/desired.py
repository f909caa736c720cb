"""Desire: every room's wish for one node, by kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuplan.planfile.schema import PlanFile
from gpuplan.resources.kinds import KINDS
from gpuplan.types.diagnostic import Diagnostic, Problem, Severity
from gpuplan.types.inventory import Host
from gpuplan.types.record import Record
from gpuplan.types.resource import Desired
from gpuplan.types.value import Json, to_json


@dataclass(frozen=True)
class DesiredState:
    """What the plan file implies for one host, and what the rooms warn of."""

    desired: tuple[Desired, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()


def desire(plan: PlanFile, hosts: Sequence[Host]) -> Mapping[str, DesiredState]:
    """What the plan file implies for each host, by host name.

    Raises:
        Problem: with every fault of every room on every host, each told once.
    """
    wishes: dict[str, DesiredState] = {}
    faults: dict[Diagnostic, None] = {}
    for host in hosts:
        found: list[Desired] = []
        told: list[Diagnostic] = []
        for room in KINDS:
            desired, diagnostics = room.desired(plan, host)
            found.extend(desired)
            told.extend(diagnostics)
        faults.update(dict.fromkeys(told))
        wishes[host.name] = DesiredState(tuple(found), tuple(told))
    if any(fault.severity is Severity.ERROR for fault in faults):
        raise Problem(tuple(faults))
    return wishes


def asked_images(wishes: Mapping[str, DesiredState]) -> Mapping[str, tuple[str, ...]]:
    """Host → images whose registries the plan file has asked at each plan and drift check."""
    return {
        host: tuple(dict.fromkeys(name for room in KINDS for name in room.registry_images(wish.desired)))
        for host, wish in wishes.items()
    }


def as_recorded(record: Record) -> tuple[Desired, ...]:
    """What was last applied, as if it were desired: the other side of a drift check."""
    return tuple(Desired(address, recorded.spec, recorded.needs) for address, recorded in record.resources.items())


def secret_references(desired: Iterable[Desired]) -> frozenset[str]:
    """Every secret reference in the specs, as the plan file writes it."""
    return frozenset(reference for each in desired for reference in _references(to_json(each.spec)))


def _references(value: Json) -> Iterator[str]:
    if isinstance(value, Mapping):
        if set(value) == {"secret"} and isinstance(value["secret"], str):
            yield value["secret"]
        else:
            for inner in value.values():
                yield from _references(inner)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            yield from _references(inner)
