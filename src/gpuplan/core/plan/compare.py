"""Compares one node's desired state with its snapshot, kind by kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpuplan.core.apply.record import missing_record_warning, read_record
from gpuplan.core.plan.order import order_steps
from gpuplan.resources.kinds import KINDS
from gpuplan.types.address import Address
from gpuplan.types.change import Change, Comparison, NodeChanges, Origin, Unreadable
from gpuplan.types.diagnostic import Diagnostic, Problem, internal_error
from gpuplan.types.resource import Desired, DiffContext, Record
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import KnownAfterApply, Secret, digest


def compare(
    desired: Sequence[Desired],
    snapshot: Snapshot,
    plan: str,
    secrets: Mapping[str, Secret],
    replace_globs: tuple[str, ...] = (),
) -> NodeChanges:
    """All changes of one node. Resources that match `replace_globs` are replaced even if unchanged."""
    try:
        record = read_record(snapshot, plan)
    except Problem as problem:
        return unreadable_node(snapshot.node, problem.diagnostics, desired)
    context = DiffContext(snapshot.node, plan, record, secrets=secrets, replace=replace_globs)
    try:
        return _node_changes(desired, snapshot, record, _compare_kinds(desired, snapshot, context))
    except Exception as error:  # noqa: BLE001 - a bug met on one node must not hide the other nodes
        diagnostic = internal_error(snapshot.node, error, f"Comparing {snapshot.node}")
        return unreadable_node(snapshot.node, [diagnostic], desired)


def _compare_kinds(desired: Sequence[Desired], snapshot: Snapshot, context: DiffContext) -> list[Comparison]:
    """Compare kind by kind, in the order of KINDS.

    Each kind is given what the earlier ones bound and disturbed: a re-created slice replaces its container, and that
    reloads its models.
    """
    bindings: dict[Address, str | KnownAfterApply] = {}
    disturbed: dict[Address, str] = {}
    comparisons: list[Comparison] = []
    for kind in KINDS:
        resources = [resource for resource in desired if resource.address.kind == kind.name]
        kind_context = replace(context, bindings=dict(bindings), disturbed=dict(disturbed))
        comparison = kind.compare(resources, snapshot, kind_context)
        bindings.update(comparison.bindings)
        for change in comparison.changes:
            disturbed.update(change.disturbs)
        comparisons.append(comparison)
    return comparisons


def unreadable_node(node: str, problems: Iterable[Diagnostic], desired: Sequence[Desired]) -> NodeChanges:
    """The changes of a node that could not be read: none."""
    connection = Address(node, "node", "connection")
    return NodeChanges(
        node,
        unknown=tuple(Unreadable(connection, replace(problem, address=node)) for problem in problems),
        desired=tuple(desired),
        resources=len(desired),
    )


def _node_changes(
    desired: Sequence[Desired], snapshot: Snapshot, record: Record, comparisons: Sequence[Comparison]
) -> NodeChanges:
    digests = {resource.address: resource.digest for resource in desired}
    changes = tuple(
        replace(change, origin=change.origin or _origin(change.address, digests, record))
        for comparison in comparisons
        for change in comparison.changes
    )
    warning = missing_record_warning(snapshot, record)
    unreadable = [part for comparison in comparisons for part in comparison.unknown]
    rests_on = {address: state for comparison in comparisons for address, state in comparison.rests_on.items()}
    rests_on[Address(snapshot.node, "record", record.plan)] = digest(record.run)
    return NodeChanges(
        node=snapshot.node,
        changes=changes,
        order=order_steps(changes),
        unmanaged=tuple(unmanaged for comparison in comparisons for unmanaged in comparison.unmanaged),
        unknown=_with_causes(unreadable, desired, record),
        diagnostics=(
            *([warning] if warning else []),
            *(diagnostic for comparison in comparisons for diagnostic in comparison.diagnostics),
        ),
        rests_on=rests_on,
        desired=tuple(desired),
        resources=len(desired),
    )


def _with_causes(
    unreadable: Sequence[Unreadable], desired: Sequence[Desired], record: Record
) -> tuple[Unreadable, ...]:
    """Each unreadable part with the unreadable part that it needs, if any: only the latter has to be mended."""
    needs = {address: recorded.needs for address, recorded in record.resources.items()}
    needs |= {resource.address: resource.needs for resource in desired}

    def cause(part: Unreadable) -> Address | None:
        others = (other.address for other in unreadable if other.address != part.address)
        needed = needs.get(part.address, ())
        return next(
            (other for other in others if any(other.covers(need) or need.covers(other) for need in needed)), None
        )

    return tuple(replace(part, cause=cause(part)) for part in unreadable)


def _origin(address: Address, digests: Mapping[Address, str], record: Record) -> Origin:
    recorded = record.resources.get(address)
    return Origin.DRIFT if recorded and recorded.digest == digests.get(address) else Origin.PENDING


def dependants(changes: Sequence[Change], root: Change) -> tuple[Address, ...]:
    """The resources that change only because of `root`, directly or indirectly."""
    causes = {change.address: change.cause for change in changes}
    return tuple(
        change.address
        for change in changes
        if change.address != root.address and _root(change.address, causes) == root.address
    )


def roots(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The changes without a cause, or whose cause is not among the changes."""
    causes = {change.address: change.cause for change in changes}
    return tuple(change for change in changes if _root(change.address, causes) == change.address)


def _root(address: Address, causes: Mapping[Address, Address | None]) -> Address:
    seen = {address}
    while (cause := causes.get(address)) is not None and cause in causes and cause not in seen:
        seen.add(cause)
        address = cause
    return address
