"""The commands plan, apply and drift-check as functions, and their exit codes. The command line prints the results."""

from __future__ import annotations

import secrets as random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from gpuplan.core.apply.apply import Run, apply_node
from gpuplan.core.apply.record import now
from gpuplan.core.drift import check_drift
from gpuplan.core.plan.compare import compare, unreadable_node
from gpuplan.core.plan.desired import DesiredState, desired_state, registry_images, secret_references
from gpuplan.core.plan.guards import refusals
from gpuplan.core.plan.observe import NodeAnswer, for_each_host, observe, refuse_duplicate_machines
from gpuplan.core.plan.targets import EVERYTHING, Scope
from gpuplan.planfile.schema import PlanFile
from gpuplan.resources.kinds import with_companions
from gpuplan.secrets.references import find_references, resolve_available, resolve_references
from gpuplan.transport.session import Question
from gpuplan.types.change import ChangeSet, NodeChanges
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem, errors_in
from gpuplan.types.inventory import Host, Inventory
from gpuplan.types.outcome import Listener, NodeOutcome, silent
from gpuplan.types.report import NodeFindings, Report
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
    """Read all nodes and compare them with the plan file. A node's errors are in its part of the change set.

    Raises:
        Problem: the plan file has errors, or a secret cannot be read.
    """
    hosts = tuple(host for host in inventory.hosts if scope.has_node(host.name))
    scope = replace(scope, kinds=with_companions(scope.kinds))
    states: Mapping[str, DesiredState] = {} if destroy else desired_state(plan_file, hosts)
    references = secret_references(_of_kinds(_all_desired(states), scope.kinds))
    secrets = resolve_references(references, environ, base_dir, dict(find_references(plan_file)))
    question = Question(plan_file.name, images=registry_images(states))
    answers = refuse_duplicate_machines(observe(hosts, question, listen))
    return ChangeSet(
        plan=plan_file.name,
        plan_file=str(base_dir / Path(plan_file.path).name),
        run=random.token_hex(6),
        created=now(),
        nodes=tuple(
            scope.of(_node_changes(answer, states.get(answer.host.name, DesiredState()), plan_file, secrets, scope))
            for answer in answers
        ),
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
    """Apply a change set to all its nodes at the same time; a failure on one node does not stop the others.

    On Ctrl-C each node finishes the step under way and a replacement that has begun, and starts nothing else.

    Raises:
        Problem: a node of the change set is not in the inventory, or a secret cannot be read.
    """
    hosts = _hosts_of(change_set, inventory)
    nodes = {node.node: node for node in change_set.nodes}
    desired = [resource for node in change_set.nodes for resource in node.desired]
    secrets = resolve_references(secret_references(_of_kinds(desired, change_set.only)), environ, base_dir)
    run = Run(change_set, base_dir, secrets, tuple(allow), who, listen, threading.Event())
    return for_each_host(hosts, lambda host: apply_node(host, nodes[host.name], run), run.stop)


def drift(
    plan_file: PlanFile,
    inventory: Inventory,
    *,
    environ: Mapping[str, str],
    base_dir: Path,
    listen: Listener = silent,
) -> Report:
    """Compare all nodes with what was last applied to them. Takes no lock and changes nothing.

    A secret that cannot be read is reported, and the variables that contain it are not compared.

    Raises:
        Problem: the plan file has errors.
    """
    started = time.monotonic()
    states = desired_state(plan_file, inventory.hosts)
    references = secret_references(_all_desired(states))
    secrets, unresolved = resolve_available(references, environ, base_dir, dict(find_references(plan_file)))
    question = Question(plan_file.name, images=registry_images(states))
    answers = refuse_duplicate_machines(observe(inventory.hosts, question, listen))
    today = datetime.now(UTC).date()

    def check(answer: NodeAnswer) -> NodeFindings:
        name, desired = answer.host.name, states[answer.host.name].desired
        if answer.snapshot is None:
            return NodeFindings(name, unknown=unreadable_node(name, answer.problems, desired).unknown)
        return check_drift(desired, answer.snapshot, plan_file.name, secrets, plan_file.drift.ignore, today)

    findings = tuple(check(answer) for answer in answers)
    return Report(plan_file.name, now(), time.monotonic() - started, findings, unresolved)


def _node_changes(
    answer: NodeAnswer, state: DesiredState, plan_file: PlanFile, secrets: Mapping[str, Secret], scope: Scope
) -> NodeChanges:
    if answer.snapshot is None:
        return unreadable_node(answer.host.name, answer.problems, state.desired)
    node = compare(state.desired, answer.snapshot, plan_file.name, secrets, scope.replace)
    return replace(node, diagnostics=(*state.warnings, *node.diagnostics))


def _all_desired(states: Mapping[str, DesiredState]) -> list[Desired]:
    return [resource for state in states.values() for resource in state.desired]


def _of_kinds(desired: Sequence[Desired], kinds: Sequence[str]) -> list[Desired]:
    return [resource for resource in desired if not kinds or resource.address.kind in kinds]


def _hosts_of(change_set: ChangeSet, inventory: Inventory) -> tuple[Host, ...]:
    hosts = {host.name: host for host in inventory.hosts}
    missing = [node.node for node in change_set.nodes if node.node not in hosts]
    if missing:
        raise Problem(
            tuple(
                Diagnostic(
                    "A node is not in the inventory",
                    f"The change set has changes for {name}, which the inventory does not contain.",
                    "Use the inventory that the change set was made with: -i INVENTORY",
                    address=name,
                )
                for name in missing
            )
        )
    return tuple(hosts[node.node] for node in change_set.nodes)


def plan_exit_code(change_set: ChangeSet, detailed: bool) -> Exit:
    """1 if a node has errors, 4 if one was not read, 2 if there are changes and `detailed`; else 0."""
    if any(errors_in(node.diagnostics) for node in change_set.nodes):
        return Exit.ERROR
    if any(node.unknown for node in change_set.nodes):
        return Exit.UNREAD
    return Exit.CHANGES if detailed and not change_set.empty else Exit.DONE


def apply_exit_code(outcomes: Sequence[NodeOutcome]) -> Exit:
    """The most severe code of all nodes: an error before stale, busy, refused and unread."""
    codes = {Exit(outcome.exit_code) for outcome in outcomes}
    order = (Exit.ERROR, Exit.STALE, Exit.BUSY, Exit.REFUSED, Exit.UNREAD)
    return next((code for code in order if code in codes), Exit.DONE)


def drift_exit_code(report: Report) -> Exit:
    """The first that applies of 1 error, 4 unread, 5 busy, 2 drift, 3 pending; else 0."""
    nodes = report.nodes
    if errors_in(report.diagnostics) or any(errors_in(node.diagnostics) for node in nodes):
        return Exit.ERROR
    if any(node.unknown for node in nodes):
        return Exit.UNREAD
    if any(node.busy for node in nodes):
        return Exit.BUSY
    if any(node.drift or node.unmanaged for node in nodes):
        return Exit.CHANGES
    return Exit.PENDING if any(node.pending for node in nodes) else Exit.DONE
