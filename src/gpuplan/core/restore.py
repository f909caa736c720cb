"""Restoring: a node made again as it was last applied, from the records that it keeps; no plan file is needed."""

from __future__ import annotations

import secrets as random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuplan.core.apply.record import now, read_record
from gpuplan.core.plan.compare import compare, unreadable_node
from gpuplan.core.plan.desired import as_recorded, secret_references
from gpuplan.core.plan.observe import ask_node
from gpuplan.core.plan.targets import Scope
from gpuplan.resources.kinds import with_companions
from gpuplan.secrets.references import resolve_references
from gpuplan.transport.connect import connect
from gpuplan.transport.session import Question
from gpuplan.types.address import Address
from gpuplan.types.change import ChangeSet, NodeChanges
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.inventory import Host
from gpuplan.types.outcome import Listener, silent
from gpuplan.types.resource import Desired, Record

RECORDS_FOLDER = Path("/var/lib/gpuplan/plans")
"""Where the records are kept; sources and files of secrets are elsewhere, beside the plan file."""
WITHOUT_ENGINE = ("gpu",)
"""The kinds that can be restored while there is no Docker engine yet."""


@dataclass(frozen=True)
class RestorePlan:
    """One plan's part of the work: what differs from its record, and the host under the name that the record has."""

    change_set: ChangeSet
    host: Host
    followers: tuple[Address, ...] = ()
    """Resources of other kinds that have to follow: what they were given exists no more."""


def recorded_plans(host: Host) -> tuple[str, ...]:
    """The plans of which the node keeps a record, in the order of their names.

    Raises:
        Problem: the node cannot be asked.
    """
    session = connect(host)
    try:
        found = session.agent("record.list")["plans"]
    finally:
        session.close()
    return tuple(str(name) for name in found) if isinstance(found, list) else ()


def plan_restore(
    host: Host, plan: str, kinds: Sequence[str], environ: Mapping[str, str], listen: Listener = silent
) -> RestorePlan:
    """What has to be done so that the node is again as this plan was last applied to it.

    While the node boots its engine must not be asked: its socket takes connections before it runs, and it waits for
    us. So it is spared the question where GPUs alone are wanted.

    Raises:
        Problem: the record cannot be read, or a secret that the containers need is not in the environment.
    """
    record = _record(host, plan)
    spared = frozenset({"docker", "triton", "repository"} if set(kinds) <= {*WITHOUT_ENGINE} and kinds else ())
    host = replace(host, name=_name_of(record) or host.name, skipped_probes=spared)
    desired = as_recorded(record)
    secrets = resolve_references(
        secret_references(each for each in desired if not kinds or each.address.kind in kinds), environ, RECORDS_FOLDER
    )
    answer = ask_node(host, Question(plan), listen)
    node = (
        unreadable_node(host.name, answer.problems, desired)
        if answer.snapshot is None
        else compare(desired, answer.snapshot, plan, secrets)
    )
    part = Scope(kinds=with_companions(kinds)).of(node)
    change_set = ChangeSet(
        plan=plan,
        plan_file=str(RECORDS_FOLDER / plan / "record.json"),
        run=random.token_hex(6),
        created=now(),
        nodes=(part,),
        only=with_companions(kinds),
    )
    return RestorePlan(change_set, host, _followers(part, desired, kinds))


def _record(host: Host, plan: str) -> Record:
    session = connect(host)
    try:
        return read_record(session.ask(Question(plan, ("record",))), plan)
    finally:
        session.close()


def _name_of(record: Record) -> str:
    """The node's name in the inventory with which it was last applied to."""
    return next((address.node for address in (*record.resources, *record.remembered)), "")


def _followers(node: NodeChanges, desired: Sequence[Desired], kinds: Sequence[str]) -> tuple[Address, ...]:
    gone = [address for change in node.changes for address in change.disturbs]
    return tuple(
        each.address
        for each in desired
        if kinds and each.address.kind not in kinds and any(_meet(need, one) for need in each.needs for one in gone)
    )


def _meet(need: Address, gone: Address) -> bool:
    return need.covers(gone) or gone.covers(need)


def follower_warnings(restored: RestorePlan) -> tuple[Diagnostic, ...]:
    """Word that something else has to follow, where it has to."""
    if not restored.followers:
        return ()
    named = ", ".join(f"{each.kind}/{each.name}" for each in restored.followers)
    return (
        Diagnostic(
            "Containers have to be replaced",
            f"{named}: the devices that they were created with exist no more, and a restart does not give them others.",
            "Run gpuplan apply --local here, or gpuplan apply with the plan file.",
            address=restored.host.name,
            severity=Severity.WARNING,
        ),
    )
