"""Drift: what changed on a node since the last apply, and what changed in the plan file (pending)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fnmatch import fnmatchcase

from gpuplan.core.apply.record import missing_record_warning, read_record
from gpuplan.core.plan.compare import compare, dependants, roots
from gpuplan.core.plan.desired import as_recorded
from gpuplan.core.plan.observe import boot_id
from gpuplan.planfile.schema import IgnoredDrift
from gpuplan.types.address import Address
from gpuplan.types.change import Change, NodeChanges, Origin, Unmanaged, Unreadable
from gpuplan.types.diagnostic import Diagnostic, Problem, Severity
from gpuplan.types.report import Drift, NodeFindings
from gpuplan.types.resource import Desired, Record
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import Secret

CLOCK_ROUNDING = timedelta(seconds=2)
"""Both times are in whole seconds."""


def check_drift(
    desired: Sequence[Desired],
    snapshot: Snapshot,
    plan: str,
    secrets: Mapping[str, Secret],
    ignore: Sequence[IgnoredDrift],
    today: date,
) -> NodeFindings:
    """Compare the node's record with the node (drift) and with the plan file (pending).

    `ignore` rules apply through the day of their `until`; `today` is in UTC.
    """
    if holder := _lock_holder(snapshot):
        return NodeFindings(snapshot.node, busy=holder)
    try:
        record = read_record(snapshot, plan)
    except Problem as problem:
        return _unreadable_record(snapshot.node, problem.diagnostics)
    if warning := missing_record_warning(snapshot, record):
        return _unreadable_record(snapshot.node, [warning])
    node = compare(as_recorded(record), snapshot, plan, secrets)
    rotated = [
        change for change in node.changes if change.origin is Origin.PENDING and change.address in record.resources
    ]
    waiting = {address for change in rotated for address in (change.address, *dependants(node.changes, change))}
    restarted = restart_time(snapshot, record)
    changes = [_with_restart(change, restarted) for change in node.changes if change.address not in waiting]
    rules = [rule for rule in ignore if rule.until is None or date.fromisoformat(rule.until) >= today]
    drift, suppressed = _drift(changes, record, rules)
    return NodeFindings(
        node=snapshot.node,
        drift=drift,
        unmanaged=_new_unmanaged(node, record, rules),
        pending=tuple(dict.fromkeys((*_pending(desired, record), *(change.address for change in rotated)))),
        rotated=tuple(rotated),
        unknown=node.unknown,
        diagnostics=tuple(diagnostic for diagnostic in node.diagnostics if not _is_about_repair(diagnostic, drift)),
        suppressed=suppressed,
    )


def _unreadable_record(node: str, diagnostics: Sequence[Diagnostic]) -> NodeFindings:
    address = Address(node, "node", "record")
    return NodeFindings(node, unknown=tuple(Unreadable(address, diagnostic) for diagnostic in diagnostics))


def _is_about_repair(diagnostic: Diagnostic, drift: Sequence[Drift]) -> bool:
    """Whether it says why reported drift cannot be undone; that matters to a plan only."""
    without_steps = {str(drifted.change.address) for drifted in drift if not drifted.change.steps}
    return diagnostic.severity is Severity.ERROR and diagnostic.address in without_steps


def _drift(changes: Sequence[Change], record: Record, rules: Sequence[IgnoredDrift]) -> tuple[tuple[Drift, ...], int]:
    """The root changes that no rule ignores, each with its dependants, and the number of ignored fields.

    If a root is ignored, or was never applied, its dependants are reported by themselves.
    """
    drift: list[Drift] = []
    suppressed = 0
    for change in roots(changes):
        fields = tuple(field for field in change.fields if not _ignored(change.address, field.path, rules))
        suppressed += len(change.fields) - len(fields)
        below = dependants(changes, change)
        if _applied(change.address, record) and (fields or not change.fields):
            drift.append(Drift(replace(change, fields=fields), below))
        else:
            more, more_suppressed = _drift([other for other in changes if other.address in below], record, rules)
            drift.extend(more)
            suppressed += more_suppressed
    return tuple(drift), suppressed


def _applied(address: Address, record: Record) -> bool:
    return any(address.covers(recorded) for recorded in record.resources)


def _with_restart(change: Change, restarted: str) -> Change:
    """The change; if it lost devices and the node was restarted, that is its first reason."""
    if not (restarted and change.disturbs):
        return change
    return replace(change, reasons=(f"the node was restarted at {restarted}, after the last apply", *change.reasons))


def _ignored(address: Address, field: str, rules: Sequence[IgnoredDrift]) -> bool:
    return any(fnmatchcase(str(address), rule.address) and fnmatchcase(field, rule.field) for rule in rules)


def _new_unmanaged(node: NodeChanges, record: Record, rules: Sequence[IgnoredDrift]) -> tuple[Unmanaged, ...]:
    """What appeared since the last apply, and everything unmanaged that can access a GPU of the plan file."""
    if record.empty:
        return ()
    return tuple(
        unmanaged
        for unmanaged in node.unmanaged
        if (unmanaged.sees or f"{unmanaged.address.kind}/{unmanaged.address.name}" not in record.bystanders)
        and (
            unmanaged.in_the_way_of is None
            or any(recorded.covers(unmanaged.in_the_way_of) for recorded in record.resources)
        )
        and not _ignored(unmanaged.address, "", rules)
    )


def _pending(desired: Sequence[Desired], record: Record) -> tuple[Address, ...]:
    desired_digests = {resource.address: resource.digest for resource in desired}
    recorded_digests = {address: recorded.digest for address, recorded in record.resources.items()}
    return tuple(
        address
        for address in {**desired_digests, **recorded_digests}
        if desired_digests.get(address) != recorded_digests.get(address)
    )


def _lock_holder(snapshot: Snapshot) -> str:
    host = snapshot.probe("host").value
    lock = host.get("lock") if isinstance(host, Mapping) else None
    return f"{lock.get('who')} (run {lock.get('run')})" if isinstance(lock, Mapping) else ""


def restart_time(snapshot: Snapshot, record: Record) -> str:
    """When the node was restarted (UTC), if that was after the last apply; else empty.

    The boot id decides. A record without one is compared by the clock.
    """
    started = _start_time(snapshot)
    if started is None or record.empty:
        return ""
    if record.boot:
        restarted = boot_id(snapshot) not in ("", record.boot)
    else:
        applied = _parse_time(record.when)
        restarted = applied is not None and started > applied + CLOCK_ROUNDING
    return started.strftime("%Y-%m-%dT%H:%M:%SZ") if restarted else ""


def _start_time(snapshot: Snapshot) -> datetime | None:
    host = snapshot.probe("host").value
    uptime = host.get("uptime_seconds") if isinstance(host, Mapping) else None
    asked = _parse_time(snapshot.asked_at)
    return asked - timedelta(seconds=uptime) if asked and isinstance(uptime, int | float) else None


def _parse_time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return None
