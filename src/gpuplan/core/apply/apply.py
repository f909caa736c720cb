"""Applies a change set to one node: lock, staleness and guards, preflight, steps, and a last look."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gpuplan.core.apply.context import NodeContext
from gpuplan.core.apply.record import Journal, RecordKeeper, now, read_record
from gpuplan.core.apply.steps import StepRunner
from gpuplan.core.plan.compare import compare
from gpuplan.core.plan.guards import node_refusals, stale_diagnostics
from gpuplan.core.plan.observe import boot_id
from gpuplan.core.plan.targets import Scope, without_unrelated_guards
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.kinds import KINDS
from gpuplan.secrets.redact import redactor
from gpuplan.transport.connect import connect
from gpuplan.transport.session import Question, Session
from gpuplan.types.address import Address
from gpuplan.types.change import ChangeSet, NodeChanges
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem, errors_in, internal_error
from gpuplan.types.inventory import Host
from gpuplan.types.outcome import Listener, NodeOutcome, Status, StepOutcome
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import Secret

MIN_FREE_BYTES = 1 << 20
"""Free disk space that the journal and the record need on the node."""


@dataclass(frozen=True)
class Run:
    """What all nodes of one apply share."""

    change_set: ChangeSet
    base: Path
    """Folder of the plan file, to which model sources and archives are relative."""
    secrets: Mapping[str, Secret]
    allow: Sequence[str]
    who: str
    listen: Listener
    stop: threading.Event
    """Set by Ctrl-C: the step under way and begun replacements are finished, nothing else is started."""

    @property
    def scope(self) -> Scope:
        """The targets and kinds that the run is limited to."""
        return Scope(self.change_set.targets, self.change_set.only)


def apply_node(host: Host, node: NodeChanges, run: Run) -> NodeOutcome:
    """Apply a change set to one node. Errors are part of the outcome.

    A node without changes is visited too, to bring its record up to date with the plan file, unless the run has
    targets.
    """
    if run.change_set.targets and not node.changes:
        return NodeOutcome(host.name)
    try:
        with _locked(host, run) as session:
            return _apply_locked(session, node, run)
    except Problem as problem:
        return NodeOutcome(host.name, diagnostics=problem.diagnostics, exit_code=problem.exit_code)
    except Exception as error:  # noqa: BLE001 - a bug met on one node must not hide what was done on the others
        diagnostic = internal_error(host.name, error, f"Applying to {host.name}")
        return NodeOutcome(host.name, diagnostics=(diagnostic,), exit_code=Exit.ERROR)


@contextmanager
def _locked(host: Host, run: Run) -> Iterator[Session]:
    session = connect(host)
    try:
        owner = {"run": run.change_set.run, "who": run.who, "since": now(), "pid": os.getpid()}
        lock = session.agent("lock.take", owner=owner)
        if lock["taken"] is not True:
            raise Problem(_busy(host.name, lock.get("holder")), Exit.BUSY)
        yield session
    finally:
        session.close()


def _apply_locked(session: Session, node: NodeChanges, run: Run) -> NodeOutcome:
    snapshot = session.ask(Question(run.change_set.plan))
    fresh = _compare(node, snapshot, run, run.change_set.replace)
    if refused := _refusal(node, fresh, run):
        return refused
    _check_disk_space(snapshot)
    record = read_record(snapshot, run.change_set.plan)
    keeper = RecordKeeper(session, record, run.change_set.run, run.who, boot_id(snapshot))
    complete = {change.address for change in node.changes} == {change.address for change in fresh.changes}
    if not node.changes:
        _finish_record(session, keeper, node, fresh, run)
        return _outcome(node, fresh, (), run, complete)
    journal = Journal(session, run.change_set.plan, run.change_set.run)
    steps = _run_steps(session, node, run, keeper, journal)
    try:
        last = _compare(node, session.ask(Question(run.change_set.plan)), run)
        outcome = _outcome(node, last, steps, run, complete)
        journal.run_ended(outcome.exit_code)
        _finish_record(session, keeper, node, last, run)
    except Problem as problem:
        return NodeOutcome(node.node, steps, problem.diagnostics, Exit.ERROR)
    return outcome


def _check_disk_space(snapshot: Snapshot) -> None:
    host = snapshot.probe("host").value
    disk = host.get("disk") if isinstance(host, Mapping) else None
    free = disk.get("free") if isinstance(disk, Mapping) else None
    if isinstance(free, int) and free < MIN_FREE_BYTES:
        raise Problem(
            Diagnostic(
                "The node's disk is full",
                f"{snapshot.node} has {free:,} bytes free at /var/lib/gpuplan, where gpuplan keeps its record. "
                "Nothing was done.",
                f"Free at least {MIN_FREE_BYTES >> 20} MiB there.",
                address=snapshot.node,
            )
        )


def _finish_record(session: Session, keeper: RecordKeeper, planned: NodeChanges, last: NodeChanges, run: Run) -> None:
    """Bring the record up to date with the last look; remove it after a complete destroy. Remove unused blobs."""
    keeper.settle(last, run.scope, [change.address for change in planned.changes])
    left = keeper.record.resources or keeper.record.remembered or last.changes or last.unknown
    if run.change_set.destroy and not left:
        session.agent("record.remove", plan=run.change_set.plan)
    else:
        keeper.write()
    session.agent("blob.collect")


def _compare(node: NodeChanges, snapshot: Snapshot, run: Run, replace_globs: tuple[str, ...] = ()) -> NodeChanges:
    return run.scope.of(compare(node.desired, snapshot, run.change_set.plan, run.secrets, replace_globs))


def _refusal(node: NodeChanges, fresh: NodeChanges, run: Run) -> NodeOutcome | None:
    if errors := errors_in(fresh.diagnostics):
        return NodeOutcome(node.node, diagnostics=errors, exit_code=Exit.ERROR)
    if stale := stale_diagnostics(node, fresh):
        return NodeOutcome(node.node, diagnostics=stale, exit_code=Exit.STALE)
    guarded = without_unrelated_guards(fresh, [change.address for change in node.changes])
    if refusals := node_refusals(guarded, run.allow):
        return NodeOutcome(node.node, diagnostics=refusals, exit_code=Exit.REFUSED)
    return None


def _run_steps(
    session: Session, node: NodeChanges, run: Run, keeper: RecordKeeper, journal: Journal
) -> tuple[StepOutcome, ...]:
    context = partial(NodeContext, session, run.change_set.plan, run.base, run.secrets, keeper=keeper)
    _preflight(node, context(lambda _: None))
    journal.run_started(run.who, len(node.order))
    return StepRunner(node, context, journal, keeper, run.listen, run.stop, redactor(run.secrets.values())).run()


def _preflight(node: NodeChanges, context: ApplyContext) -> None:
    """Let each kind check its steps; raises Problem before anything is done."""
    for kind in KINDS:
        steps = [step for change in node.changes for step in change.steps if step.address.kind == kind.name]
        kind.preflight(steps, context)


def _outcome(
    node: NodeChanges, last: NodeChanges, steps: tuple[StepOutcome, ...], run: Run, complete: bool
) -> NodeOutcome:
    """The outcome by the steps and the last look. If `complete`, the run was to apply all changes of the node."""
    planned = {change.address for change in node.changes}
    remaining = tuple(change for change in last.changes if complete or change.address in planned)
    failed = any(step.status is not Status.DONE for step in steps)
    errors = errors_in(last.diagnostics)
    newly_readable = [change.address for change in remaining if _was_unreadable(change.address, node)]
    if not failed:
        errors += tuple(
            _not_converged(str(change.address)) for change in remaining if change.address not in newly_readable
        )
    unreadable = tuple(
        replace(part.diagnostic, address=str(part.address)) for part in last.unknown if part.cause is None
    )
    unreadable += tuple(_newly_readable(str(address)) for address in newly_readable)
    if run.stop.is_set():
        errors += (_interrupted(node.node),)
    exit_code = Exit.ERROR if failed or errors else Exit.UNREAD if last.unknown or newly_readable else Exit.DONE
    return NodeOutcome(node.node, steps, errors + unreadable, exit_code, remaining)


def _was_unreadable(address: Address, planned: NodeChanges) -> bool:
    return any(part.address.covers(address) or address.covers(part.address) for part in planned.unknown)


def _busy(node: str, holder: object) -> Diagnostic:
    who = "Another apply"
    if isinstance(holder, Mapping):
        who = f"{holder.get('who')} (run {holder.get('run')}, since {holder.get('since')})"
    return Diagnostic(
        "The node is locked",
        f"{who} is applying to {node}. Nothing was done there.",
        "Wait until that run has ended. The lock is released when its connection closes, even after a crash.",
        address=node,
    )


def _not_converged(address: str) -> Diagnostic:
    return Diagnostic(
        "A resource did not converge",
        f"All steps for {address} succeeded, but the node still differs from the plan file.",
        "Run gpuplan plan to see the difference. Something else may be changing the node at the same time.",
        address=address,
    )


def _newly_readable(address: str) -> Diagnostic:
    return Diagnostic(
        "A resource became readable during the apply",
        f"{address} could not be read when the plan was made, so nothing was done for it. It has changes.",
        "Run gpuplan plan and apply again.",
        address=address,
    )


def _interrupted(node: str) -> Diagnostic:
    return Diagnostic(
        "Interrupted",
        "The step under way was finished; no further step was started.",
        "Run gpuplan plan, then gpuplan apply, to continue.",
        address=node,
    )
