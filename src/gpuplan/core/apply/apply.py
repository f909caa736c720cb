"""Apply: one node's part of a change set, step by step, each verified, journalled and recorded."""

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
"""Bytes that must be free on the node for its journal and its record."""


@dataclass(frozen=True)
class Run:
    """What all nodes of one apply share."""

    change_set: ChangeSet
    base: Path
    """Folder of the plan file; model sources and archives lie beside it."""
    secrets: Mapping[str, Secret]
    allow: Sequence[str]
    who: str
    listen: Listener
    stop: threading.Event
    """Set when the operator interrupts: what is under way and a begun replacement are finished, nothing else is."""

    @property
    def scope(self) -> Scope:
        """What the run is confined to."""
        return Scope(self.change_set.targets, self.change_set.only)


def apply_node(host: Host, node: NodeChanges, run: Run) -> NodeOutcome:
    """Apply to one node what the change set says of it. Never raises for what the node did.

    Without a change for it the node is visited all the same, so that its record catches up with the plan file; not so
    where the run is confined to targets that are not there.
    """
    if run.change_set.targets and not node.changes:
        return NodeOutcome(host.name)
    try:
        with _locked(host, run) as session:
            return _under_lock(session, node, run)
    except Problem as problem:
        return NodeOutcome(host.name, diagnostics=problem.diagnostics, exit_code=problem.exit_code)
    except Exception as fault:  # noqa: BLE001 - one node's fault must not hide what was done on the others
        crash = internal_error(host.name, fault, f"Applying to {host.name}")
        return NodeOutcome(host.name, diagnostics=(crash,), exit_code=Exit.ERROR)


@contextmanager
def _locked(host: Host, run: Run) -> Iterator[Session]:
    session = connect(host)
    try:
        owner = {"run": run.change_set.run, "who": run.who, "since": now(), "pid": os.getpid()}
        answer = session.agent("lock.take", owner=owner)
        if answer["taken"] is not True:
            raise Problem(_busy(host.name, answer.get("holder")), Exit.BUSY)
        yield session
    finally:
        session.close()


def _under_lock(session: Session, node: NodeChanges, run: Run) -> NodeOutcome:
    snapshot = session.ask(Question(run.change_set.plan))
    fresh = _compare(node, snapshot, run, run.change_set.replace)
    refused = _refusal(node, fresh, run)
    if refused is not None:
        return refused
    _require_room(snapshot)
    record = read_record(snapshot, run.change_set.plan)
    keeper = RecordKeeper(session, record, run.change_set.run, run.who, boot_id(snapshot))
    whole = {change.address for change in node.changes} == {change.address for change in fresh.changes}
    if not node.changes:
        _settle(session, keeper, node, fresh, run)
        return _conclude(node, fresh, (), run, whole)
    journal = Journal(session, run.change_set.plan, run.change_set.run)
    outcomes = _do(session, node, run, keeper, journal)
    try:
        last = _compare(node, session.ask(Question(run.change_set.plan)), run)
        outcome = _conclude(node, last, outcomes, run, whole)
        journal.ends(outcome.exit_code)
        _settle(session, keeper, node, last, run)
    except Problem as problem:
        return NodeOutcome(node.node, outcomes, problem.diagnostics, Exit.ERROR)
    return outcome


def _require_room(snapshot: Snapshot) -> None:
    """Refuse to begin what could not be written down: the journal and the record need little, but they need it."""
    host = snapshot.probe("host").value
    disk = host.get("disk") if isinstance(host, Mapping) else None
    free = disk.get("free") if isinstance(disk, Mapping) else None
    if isinstance(free, int) and free < MIN_FREE_BYTES:
        raise Problem(
            Diagnostic(
                "The node's disk is full",
                f"{free:,} bytes are free where {snapshot.node} keeps its record (/var/lib/gpuplan); nothing was done.",
                f"Make room there: at least {MIN_FREE_BYTES >> 20} MiB.",
                address=snapshot.node,
            )
        )


def _settle(session: Session, keeper: RecordKeeper, planned: NodeChanges, last: NodeChanges, run: Run) -> None:
    """Bring the record up to the last look; of a plan file of which nothing is left, it goes.

    So does what no plan file uses any more of the files that were brought.
    """
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
    if problems := errors_in(fresh.diagnostics):
        return NodeOutcome(node.node, diagnostics=problems, exit_code=Exit.ERROR)
    if differences := stale_diagnostics(node, fresh):
        return NodeOutcome(node.node, diagnostics=differences, exit_code=Exit.STALE)
    guarded = without_unrelated_guards(fresh, [change.address for change in node.changes])
    if vetoes := node_refusals(guarded, run.allow):
        return NodeOutcome(node.node, diagnostics=vetoes, exit_code=Exit.REFUSED)
    return None


def _do(
    session: Session, node: NodeChanges, run: Run, keeper: RecordKeeper, journal: Journal
) -> tuple[StepOutcome, ...]:
    apply_context = partial(NodeContext, session, run.change_set.plan, run.base, run.secrets, keeper=keeper)
    _preflight(node, apply_context(lambda _: None))
    journal.begins(run.who, len(node.order))
    return StepRunner(node, apply_context, journal, keeper, run.listen, run.stop, redactor(run.secrets.values())).run()


def _preflight(node: NodeChanges, apply_context: ApplyContext) -> None:
    """Raise Problem where a room sees that its steps cannot all be done; nothing has been done then."""
    for room in KINDS:
        steps = [step for change in node.changes for step in change.steps if step.address.kind == room.name]
        room.preflight(steps, apply_context)


def _conclude(
    node: NodeChanges, last: NodeChanges, outcomes: tuple[StepOutcome, ...], run: Run, whole: bool
) -> NodeOutcome:
    """`whole` = all changes of the node were to be applied, so that whatever still differs was not to be left."""
    planned = {change.address for change in node.changes}
    remaining = tuple(change for change in last.changes if whole or change.address in planned)
    failed = any(outcome.status is not Status.DONE for outcome in outcomes)
    problems = errors_in(last.diagnostics)
    unread = [change.address for change in remaining if _was_unread(change.address, node)]
    if not failed:
        problems += tuple(_not_converged(str(each.address)) for each in remaining if each.address not in unread)
    unknown = tuple(replace(each.diagnostic, address=str(each.address)) for each in last.unknown if each.cause is None)
    unknown += tuple(_read_since(str(address)) for address in unread)
    if run.stop.is_set():
        problems += (_interrupted(node.node),)
    exit_code = Exit.ERROR if failed or problems else Exit.UNREAD if last.unknown or unread else Exit.DONE
    return NodeOutcome(node.node, outcomes, problems + unknown, exit_code, remaining)


def _was_unread(address: Address, planned: NodeChanges) -> bool:
    """True for what nothing was planned for, since it could not be read then."""
    return any(each.address.covers(address) or address.covers(each.address) for each in planned.unknown)


def _busy(node: str, holder: object) -> Diagnostic:
    who = "another apply"
    if isinstance(holder, Mapping):
        who = f"{holder.get('who')} (run {holder.get('run')}, since {holder.get('since')})"
    return Diagnostic(
        "The node is locked",
        f"{who} is applying to {node} right now; nothing was done there.",
        "Wait until that run has ended. The lock goes with its connection, so none is left behind.",
        address=node,
    )


def _not_converged(address: str) -> Diagnostic:
    return Diagnostic(
        "A resource did not converge",
        f"All steps for {address} reported success, and a last look at the node still finds it different.",
        "Run gpuplan plan to see what differs; something else may be changing the node at the same time.",
        address=address,
    )


def _read_since(address: str) -> Diagnostic:
    return Diagnostic(
        "A resource can be read only now",
        f"{address} could not be read when this was planned, so nothing was done for it, and it differs.",
        "Plan and apply again.",
        address=address,
    )


def _interrupted(node: str) -> Diagnostic:
    return Diagnostic(
        "Interrupted",
        "What was under way was finished, and nothing else was begun.",
        "Run gpuplan plan, then apply, to go on from here.",
        address=node,
    )
