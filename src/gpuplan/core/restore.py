"""Restores a node to what was last applied, from its own records; no plan file is needed (`gpuplan restore`)."""

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
"""Sources and secret files are not kept here; they are relative to the plan file."""
KINDS_WITHOUT_DOCKER = ("gpu",)
"""The kinds that can be restored before the Docker engine has started."""


@dataclass(frozen=True)
class RestorePlan:
    """What differs from one plan file's record, and the host under the name that the record uses."""

    change_set: ChangeSet
    host: Host
    followers: tuple[Address, ...] = ()
    """Resources of other kinds that must be replaced, because the devices they use are gone."""


def recorded_plans(host: Host) -> tuple[str, ...]:
    """The names of the plan files with a record on the node, sorted.

    Raises:
        Problem: the node cannot be read.
    """
    session = connect(host)
    try:
        plans = session.agent("record.list")["plans"]
    finally:
        session.close()
    return tuple(str(name) for name in plans) if isinstance(plans, list) else ()


def plan_restore(
    host: Host, plan: str, kinds: Sequence[str], environ: Mapping[str, str], listen: Listener = silent
) -> RestorePlan:
    """The changes that restore what was last applied by this plan file.

    If only GPUs are restored, Docker is not asked: while a node boots, the engine's socket accepts connections before
    the engine runs, and the engine waits for this command.

    Raises:
        Problem: the record cannot be read, or a secret that the containers need is not in the environment.
    """
    record = _read_record(host, plan)
    without_docker = bool(kinds) and set(kinds) <= {*KINDS_WITHOUT_DOCKER}
    skipped = frozenset({"docker", "triton", "repository"} if without_docker else ())
    host = replace(host, name=_recorded_name(record) or host.name, skipped_probes=skipped)
    desired = as_recorded(record)
    selected = [resource for resource in desired if not kinds or resource.address.kind in kinds]
    secrets = resolve_references(secret_references(selected), environ, RECORDS_FOLDER)
    answer = ask_node(host, Question(plan), listen)
    node = (
        unreadable_node(host.name, answer.problems, desired)
        if answer.snapshot is None
        else compare(desired, answer.snapshot, plan, secrets)
    )
    node = Scope(kinds=with_companions(kinds)).of(node)
    change_set = ChangeSet(
        plan=plan,
        plan_file=str(RECORDS_FOLDER / plan / "record.json"),
        run=random.token_hex(6),
        created=now(),
        nodes=(node,),
        only=with_companions(kinds),
    )
    return RestorePlan(change_set, host, _followers(node, desired, kinds))


def _read_record(host: Host, plan: str) -> Record:
    session = connect(host)
    try:
        return read_record(session.ask(Question(plan, ("record",))), plan)
    finally:
        session.close()


def _recorded_name(record: Record) -> str:
    """The node's name in the inventory of the last apply."""
    return next((address.node for address in (*record.resources, *record.remembered)), "")


def _followers(node: NodeChanges, desired: Sequence[Desired], kinds: Sequence[str]) -> tuple[Address, ...]:
    disturbed = [address for change in node.changes for address in change.disturbs]
    return tuple(
        resource.address
        for resource in desired
        if kinds
        and resource.address.kind not in kinds
        and any(need.covers(address) or address.covers(need) for need in resource.needs for address in disturbed)
    )


def follower_warnings(restored: RestorePlan) -> tuple[Diagnostic, ...]:
    """A warning if containers must be replaced after the restore."""
    if not restored.followers:
        return ()
    names = ", ".join(f"{address.kind}/{address.name}" for address in restored.followers)
    return (
        Diagnostic(
            "Containers must be replaced",
            f"The devices that {names} were created with no longer exist. A restart does not give them new ones.",
            "Run gpuplan apply --local on the node, or gpuplan apply with the plan file.",
            address=restored.host.name,
            severity=Severity.WARNING,
        ),
    )
