"""Desire: every room's wish for one node, by kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpuplan.intent.planfile import PlanFile
from gpuplan.kinds import ROOMS
from gpuplan.model.diagnostic import Diagnostic, Problem, Severity
from gpuplan.model.inventory import Host
from gpuplan.model.record import Record
from gpuplan.model.resource import Desired
from gpuplan.model.value import Json

Wishes = tuple[Mapping[str, tuple[Desired, ...]], tuple[Diagnostic, ...]]
"""What is wanted by host name, and what there is to warn of."""


def desire(plan: PlanFile, hosts: Sequence[Host]) -> Mapping[str, tuple[Desired, ...]]:
    """What the plan file implies for each host, by host name.

    Raises:
        Problem: with every fault of every room on every host, each told once.
    """
    return wish(plan, hosts)[0]


def wish(plan: PlanFile, hosts: Sequence[Host]) -> Wishes:
    """The same, with the warnings of every room.

    Raises:
        Problem: with every fault of every room on every host, each told once.
    """
    wishes: dict[str, tuple[Desired, ...]] = {}
    faults: dict[Diagnostic, None] = {}
    for host in hosts:
        found: list[Desired] = []
        for room in ROOMS:
            desired, diagnostics = room.spec(plan, host)
            found.extend(desired)
            faults.update(dict.fromkeys(diagnostics))
        wishes[host.name] = tuple(found)
    if any(fault.severity is Severity.ERROR for fault in faults):
        raise Problem(tuple(faults))
    return wishes, tuple(faults)


def as_recorded(record: Record) -> tuple[Desired, ...]:
    """What was last applied, as if it were desired: the other side of a drift check."""
    return tuple(Desired(address, recorded.spec, recorded.needs) for address, recorded in record.resources.items())


def secret_references(desired: Iterable[Desired]) -> frozenset[str]:
    """Every secret reference in the specs, as the plan file writes it."""
    return frozenset(reference for each in desired for reference in _references(each.spec))


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
