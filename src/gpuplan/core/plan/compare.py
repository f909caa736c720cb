"""Compare: one node's wishes against its snapshot, room by room, into its part of the change set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpuplan.core.apply.internal_error import internal_error
from gpuplan.core.apply.records import lost_record, read_record
from gpuplan.core.plan.order import in_order
from gpuplan.resources.kinds import KINDS
from gpuplan.types.address import Address
from gpuplan.types.change import Change, Comparison, Origin, Unreadable
from gpuplan.types.changeset import NodeChanges
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.record import Record
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import KnownAfterApply, Secret, digest


def compare(
    desired: Sequence[Desired],
    snapshot: Snapshot,
    plan: str,
    secrets: Mapping[str, Secret],
    anew: tuple[str, ...] = (),
) -> NodeChanges:
    """Everything that differs on one node.

    What a room binds or disturbs is told to the rooms after it: so a slice that is made anew takes its container
    along, and the container its models. `anew` are globs over what is replaced whether it differs or not.
    """
    try:
        record = read_record(snapshot, plan)
    except Problem as problem:
        return unread(snapshot.node, problem.diagnostics, desired)
    try:
        return _rooms(desired, snapshot, DiffContext(snapshot.node, plan, record, secrets=secrets, replace=anew))
    except Exception as fault:  # noqa: BLE001 - one node's odd answer must not hide the other nodes
        return unread(snapshot.node, [internal_error(snapshot.node, fault, f"Comparing {snapshot.node}")], desired)


def _rooms(desired: Sequence[Desired], snapshot: Snapshot, begin: DiffContext) -> NodeChanges:
    bindings: dict[Address, str | KnownAfterApply] = {}
    disturbed: dict[Address, str] = {}
    comparisons: list[Comparison] = []
    for room in KINDS:
        context = replace(begin, bindings=dict(bindings), disturbed=dict(disturbed))
        wanted = [each for each in desired if each.address.kind == room.name]
        comparison = room.compare(wanted, snapshot, context)
        bindings.update(comparison.bindings)
        for change in comparison.changes:
            disturbed.update(change.disturbs)
        comparisons.append(comparison)
    return _gather(desired, snapshot, begin.record, comparisons)


def unread(node: str, problems: Iterable[Diagnostic], desired: Sequence[Desired]) -> NodeChanges:
    """A node that could not be read: nothing is known, so nothing is planned."""
    nowhere = Address(node, "node", "connection")
    return NodeChanges(
        node,
        unknown=tuple(Unreadable(nowhere, replace(problem, address=node)) for problem in problems),
        desired=tuple(desired),
        resources=len(desired),
    )


def _gather(
    desired: Sequence[Desired], snapshot: Snapshot, record: Record, comparisons: Sequence[Comparison]
) -> NodeChanges:
    node = snapshot.node
    lost = lost_record(snapshot, record)
    digests = {each.address: each.digest for each in desired}
    changes = tuple(
        replace(change, origin=change.origin or _origin(change.address, digests, record))
        for comparison in comparisons
        for change in comparison.changes
    )
    rests_on = {address: moved for comparison in comparisons for address, moved in comparison.rests_on.items()}
    rests_on[Address(node, "record", record.plan)] = digest(record.run)
    return NodeChanges(
        node=node,
        changes=changes,
        order=in_order(changes),
        unmanaged=tuple(each for comparison in comparisons for each in comparison.unmanaged),
        unknown=_explained([each for comparison in comparisons for each in comparison.unknown], desired, record),
        diagnostics=(
            *([lost] if lost else []),
            *(each for comparison in comparisons for each in comparison.diagnostics),
        ),
        rests_on=rests_on,
        desired=tuple(desired),
        resources=len(desired),
    )


def _explained(unknown: Sequence[Unreadable], desired: Sequence[Desired], record: Record) -> tuple[Unreadable, ...]:
    """Each unknown thing, with the one that it needs and that is unknown, too: only the first has to be looked at."""
    needs = {address: recorded.needs for address, recorded in record.resources.items()}
    needs |= {each.address: each.needs for each in desired}
    return tuple(
        replace(
            each,
            cause=next(
                (
                    other.address
                    for other in unknown
                    if other.address != each.address
                    and any(
                        other.address.covers(need) or need.covers(other.address) for need in needs.get(each.address, ())
                    )
                ),
                None,
            ),
        )
        for each in unknown
    )


def _origin(address: Address, digests: Mapping[Address, str], record: Record) -> Origin:
    recorded = record.resources.get(address)
    return Origin.DRIFT if recorded and recorded.digest == digests.get(address) else Origin.PENDING


def dependants(changes: Sequence[Change], root: Change) -> tuple[Address, ...]:
    """The resources that change only because `root` does, directly or through others."""
    causes = {change.address: change.cause for change in changes}
    return tuple(
        change.address
        for change in changes
        if change.address != root.address and _root(change.address, causes) == root.address
    )


def roots(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The changes that stand for themselves: no cause, or one that is not among the changes."""
    causes = {change.address: change.cause for change in changes}
    return tuple(change for change in changes if _root(change.address, causes) == change.address)


def _root(address: Address, causes: Mapping[Address, Address | None]) -> Address:
    seen = {address}
    while (cause := causes.get(address)) is not None and cause in causes and cause not in seen:
        seen.add(cause)
        address = cause
    return address
