"""Drift: what changed on a node since the last apply, told apart from what the plan file asks for since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase

from gpuplan.core.apply.records import lost_record, read_record
from gpuplan.core.plan.compare import compare, dependants, roots
from gpuplan.core.plan.desired import as_recorded
from gpuplan.core.plan.rebooted import restarted
from gpuplan.planfile.schema import IgnoredDrift
from gpuplan.types.address import Address
from gpuplan.types.change import Change, Origin, Unmanaged, Unreadable
from gpuplan.types.changeset import NodeChanges
from gpuplan.types.diagnostic import Diagnostic, Problem, Severity
from gpuplan.types.finding import Drift, NodeFindings
from gpuplan.types.record import Record
from gpuplan.types.resource import Desired
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import Secret


def findings(
    desired: Sequence[Desired],
    snapshot: Snapshot,
    plan: str,
    secrets: Mapping[str, Secret],
    ignore: Sequence[IgnoredDrift],
    today: date,
) -> NodeFindings:
    """What one node's drift check says: the record against the node, and the plan file against the record.

    `ignore` rules hold until the end of their day; `today` is in UTC.
    """
    ignore = [rule for rule in ignore if rule.until is None or date.fromisoformat(rule.until) >= today]
    if holder := _holder(snapshot):
        return NodeFindings(snapshot.node, busy=holder)
    try:
        record = read_record(snapshot, plan)
    except Problem as problem:
        nowhere = Address(snapshot.node, "node", "record")
        return NodeFindings(snapshot.node, unknown=tuple(Unreadable(nowhere, one) for one in problem.diagnostics))
    if lost := lost_record(snapshot, record):
        nowhere = Address(snapshot.node, "node", "record")
        return NodeFindings(snapshot.node, unknown=(Unreadable(nowhere, lost),))
    found = compare(as_recorded(record), snapshot, plan, secrets)
    started = restarted(snapshot, record)
    rotated = [each for each in found.changes if each.origin is Origin.PENDING and each.address in record.resources]
    waiting = {address for each in rotated for address in (each.address, *dependants(found.changes, each))}
    changes = tuple(_since(change, started) for change in found.changes if change.address not in waiting)
    kept, suppressed = _judge(changes, record, ignore)
    return NodeFindings(
        node=snapshot.node,
        drift=kept,
        unmanaged=_news(found, record, ignore),
        pending=tuple(dict.fromkeys((*_pending(desired, record), *(each.address for each in rotated)))),
        rotated=tuple(rotated),
        unknown=found.unknown,
        diagnostics=tuple(each for each in found.diagnostics if not _only_repair(each, kept)),
        suppressed=suppressed,
    )


def _only_repair(diagnostic: Diagnostic, kept: Sequence[Drift]) -> bool:
    """True where it says why drift that is told of anyway cannot be undone, which is the affair of a plan."""
    helpless = {str(each.change.address) for each in kept if not each.change.steps}
    return diagnostic.severity is Severity.ERROR and diagnostic.address in helpless


def _judge(changes: Sequence[Change], record: Record, ignore: Sequence[IgnoredDrift]) -> tuple[tuple[Drift, ...], int]:
    """The root changes that no rule holds back, each with what follows from it, and how many fields were held back.

    Where a root is held back, or was never applied, what follows from it stands for itself.
    """
    kept: list[Drift] = []
    suppressed = 0
    for change in roots(changes):
        visible = _visible(change, ignore)
        suppressed += len(change.fields) - len(visible.fields)
        if _applied(change.address, record) and (visible.fields or not change.fields):
            kept.append(Drift(visible, dependants(changes, change)))
        else:
            more, held_back = _judge(_below(changes, change), record, ignore)
            kept.extend(more)
            suppressed += held_back
    return tuple(kept), suppressed


def _applied(address: Address, record: Record) -> bool:
    """True for what was applied, and for what several things that were applied have in common."""
    return any(address.covers(one) for one in record.resources)


def _below(changes: Sequence[Change], root: Change) -> tuple[Change, ...]:
    below = set(dependants(changes, root))
    return tuple(change for change in changes if change.address in below)


def _since(change: Change, started: str) -> Change:
    """A change with the restart of the node as its first reason, where something is gone or another one since."""
    if not (started and change.disturbs):
        return change
    return replace(change, reasons=(f"the node was restarted at {started}, after the last apply", *change.reasons))


def _visible(change: Change, ignore: Sequence[IgnoredDrift]) -> Change:
    return replace(
        change,
        fields=tuple(field for field in change.fields if not _ignored(change.address, field.path, ignore)),
    )


def _ignored(address: Address, field: str, ignore: Sequence[IgnoredDrift]) -> bool:
    return any(fnmatchcase(str(address), rule.address) and fnmatchcase(field, rule.field) for rule in ignore)


def _news(found: NodeChanges, record: Record, ignore: Sequence[IgnoredDrift]) -> tuple[Unmanaged, ...]:
    """What is new since the last apply, and, new or not, what sees a GPU that it was not given."""
    if record.empty:
        return ()
    return tuple(
        each
        for each in found.unmanaged
        if (each.sees or f"{each.address.kind}/{each.address.name}" not in record.bystanders)
        and (each.in_the_way_of is None or any(one.covers(each.in_the_way_of) for one in record.resources))
        and not _ignored(each.address, "", ignore)
    )


def _pending(desired: Sequence[Desired], record: Record) -> tuple[Address, ...]:
    wanted = {each.address: each.digest for each in desired}
    recorded = {address: entry.digest for address, entry in record.resources.items()}
    return tuple(address for address in {**wanted, **recorded} if wanted.get(address) != recorded.get(address))


def _holder(snapshot: Snapshot) -> str:
    host = snapshot.probe("host").value
    lock = host.get("lock") if isinstance(host, Mapping) else None
    return f"{lock.get('who')} (run {lock.get('run')})" if isinstance(lock, Mapping) else ""
