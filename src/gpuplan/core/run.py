"""The verbs as functions from values to values: plan, apply, drift. The command line prints what they give."""

from __future__ import annotations

import secrets as random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from gpuplan.core.apply.apply import Run, apply_node
from gpuplan.core.apply.journal import now
from gpuplan.core.drift import findings
from gpuplan.core.plan.compare import compare, unread
from gpuplan.core.plan.desired import DesiredState, asked_images, desire, secret_references
from gpuplan.core.plan.guards import refusals
from gpuplan.core.plan.observe import Answer, at_once, observe
from gpuplan.core.plan.same_machine import told_apart
from gpuplan.core.plan.targets import EVERYTHING, Scope
from gpuplan.planfile.schema import PlanFile
from gpuplan.resources.kinds import with_companions
from gpuplan.secrets.references import find, reveal, reveal_some
from gpuplan.transport.session import Question
from gpuplan.types.changeset import ChangeSet, NodeChanges
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.event import Listener, silent
from gpuplan.types.finding import NodeFindings, Report
from gpuplan.types.inventory import Host, Inventory
from gpuplan.types.outcome import NodeOutcome
from gpuplan.types.resource import Desired
from gpuplan.types.value import Secret

__all__ = ["apply", "drift", "plan", "refusals"]


def plan(
    plan_file: PlanFile,
    inventory: Inventory,
    *,
    environ: Mapping[str, str],
    base_dir: Path,
    scope: Scope = EVERYTHING,
    destroy: bool = False,
    listen: Listener = silent,
) -> ChangeSet:
    """Ask all nodes and compare. What one node did is in its part of the change set and stops no other.

    Raises:
        Problem: the plan file itself is at fault, or a secret that it names is not to be had.
    """
    hosts = tuple(host for host in inventory.hosts if scope.has_node(host.name))
    scope = replace(scope, kinds=with_companions(scope.kinds))
    wishes: Mapping[str, DesiredState] = {} if destroy else desire(plan_file, hosts)
    revealed = reveal(secret_references(_within(_all(wishes), scope.kinds)), environ, base_dir, dict(find(plan_file)))
    answers = told_apart(observe(hosts, Question(plan_file.name, images=asked_images(wishes)), listen))
    nodes = tuple(
        _node(answer, wishes.get(answer.host.name, DesiredState()), plan_file.name, revealed, scope.replace)
        for answer in answers
    )
    return ChangeSet(
        plan=plan_file.name,
        plan_file=str(base_dir / Path(plan_file.path).name),
        run=random.token_hex(6),
        created=now(),
        nodes=tuple(scope.of(node) for node in nodes),
        destroy=destroy,
        only=scope.kinds,
        targets=scope.targets,
        replace=scope.replace,
    )


def apply(
    change_set: ChangeSet,
    inventory: Inventory,
    *,
    environ: Mapping[str, str],
    base_dir: Path,
    who: str,
    allow: Sequence[str] = (),
    listen: Listener = silent,
) -> tuple[NodeOutcome, ...]:
    """Run a change set on all its nodes at once; one node's failure does not stop another's.

    An interrupt (Ctrl-C) lets each node finish the step it is in, then begins no further one.

    Raises:
        Problem: the inventory lacks a node of the change set, or a secret is not to be had.
    """
    hosts = _hosts_of(change_set, inventory)
    parts = {node.node: node for node in change_set.nodes}
    desired = [each for node in change_set.nodes for each in node.desired]
    revealed = reveal(secret_references(_within(desired, change_set.only)), environ, base_dir)
    run = Run(change_set, base_dir, revealed, tuple(allow), who, listen, threading.Event())
    return at_once(hosts, lambda host: apply_node(host, parts[host.name], run), run.stop)


def drift(
    plan_file: PlanFile,
    inventory: Inventory,
    *,
    environ: Mapping[str, str],
    base_dir: Path,
    listen: Listener = silent,
) -> Report:
    """Check all nodes against what was last applied to them. Takes no lock and changes nothing.

    A secret that is not to be had is told in the report; the variables that hold it are not compared.

    Raises:
        Problem: the plan file itself is at fault.
    """
    started = time.monotonic()
    wishes = desire(plan_file, inventory.hosts)
    revealed, missing = reveal_some(secret_references(_all(wishes)), environ, base_dir, dict(find(plan_file)))
    question = Question(plan_file.name, images=asked_images(wishes))
    answers = told_apart(observe(inventory.hosts, question, listen))

    today = datetime.now(UTC).date()

    def check(answer: Answer) -> NodeFindings:
        desired = wishes[answer.host.name].desired
        if answer.snapshot is None:
            return NodeFindings(answer.host.name, unknown=unread(answer.host.name, answer.problems, desired).unknown)
        return findings(desired, answer.snapshot, plan_file.name, revealed, plan_file.drift.ignore, today)

    nodes = tuple(check(answer) for answer in answers)
    return Report(plan_file.name, now(), time.monotonic() - started, nodes, missing)


def _node(
    answer: Answer, wish: DesiredState, plan: str, revealed: Mapping[str, Secret], anew: tuple[str, ...]
) -> NodeChanges:
    if answer.snapshot is None:
        return unread(answer.host.name, answer.problems, wish.desired)
    node = compare(wish.desired, answer.snapshot, plan, revealed, anew)
    return replace(node, diagnostics=(*wish.warnings, *node.diagnostics))


def _all(wishes: Mapping[str, DesiredState]) -> list[Desired]:
    return [each for wish in wishes.values() for each in wish.desired]


def _within(desired: Sequence[Desired], kinds: Sequence[str]) -> list[Desired]:
    return [each for each in desired if not kinds or each.address.kind in kinds]


def _hosts_of(change_set: ChangeSet, inventory: Inventory) -> tuple[Host, ...]:
    known = {host.name: host for host in inventory.hosts}
    missing = [node.node for node in change_set.nodes if node.node not in known]
    if missing:
        raise Problem(
            tuple(
                Diagnostic(
                    "A node is not in the inventory",
                    f"The change set holds {name}, which the inventory does not name.",
                    "Give the inventory that the change set was made with: -i INVENTORY",
                    address=name,
                )
                for name in missing
            )
        )
    return tuple(known[node.node] for node in change_set.nodes)
