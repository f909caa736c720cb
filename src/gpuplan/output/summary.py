"""The last line of each view: numbers that agree with what stands above them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpuplan.output.words import count, errors, few
from gpuplan.types.change import Action, Unreadable
from gpuplan.types.changeset import ChangeSet, NodeChanges
from gpuplan.types.finding import Report
from gpuplan.types.outcome import NodeOutcome, Status


def plan_summary(changes: ChangeSet, partial: bool = False) -> str:
    """“Plan: 2 to create, 1 to update, 0 to replace, 0 to delete on 2 nodes. 1 interrupts serving.”."""
    doubts = [*["Only the targets were looked at."] * partial, *_doubts(changes.nodes)]
    if changes.empty:
        return " ".join((_no_changes(changes, partial), *doubts))
    numbers = Counter(change.action for node in changes.nodes for change in node.changes)
    touched = sum(1 for node in changes.nodes if node.changes)
    parts = ", ".join(f"{numbers[action]} to {action.name.lower()}" for action in Action)
    interrupting = sum(bool(change.interrupts) for node in changes.nodes for change in node.changes)
    head = f"{'Destroy' if changes.destroy else 'Plan'}: {parts} on {count(touched, 'node')}."
    serving = f"{interrupting} interrupt{'s' if interrupting == 1 else ''} serving." if interrupting else ""
    return " ".join(part for part in (head, serving, *doubts) if part)


def outcome_summary(outcomes: Sequence[NodeOutcome]) -> str:
    """“Applied: 7 steps done on 2 nodes. 1 failed, 2 not done on gpu-a1.”."""
    ended = Counter(step.status for outcome in outcomes for step in outcome.steps)
    wrong = [outcome.node for outcome in outcomes if outcome.exit_code]
    if wrong and not ended:
        return f"Not applied on {few(wrong)}. No step was begun."
    nodes = sum(any(step.status is Status.DONE for step in outcome.steps) for outcome in outcomes)
    done = f"{count(ended[Status.DONE], 'step')} done on {count(nodes, 'node')}." if nodes else "No step was done."
    numbers = ((ended[Status.FAILED], "failed"), (ended[Status.SKIPPED], "not done"))
    rest = ", ".join(f"{number} {how}" for number, how in numbers if number)
    sentences = [done, f"{rest}."] if rest else [done]
    if wrong:
        return " ".join((f"Not applied as planned on {few(wrong)}:", *sentences))
    return " ".join(("Applied:", *sentences))


def report_summary(report: Report) -> str:
    """“Drift: 2 on 1 node. 1 pending. 1 not of the plan file. 1 finding suppressed.”."""
    nodes = report.nodes
    drift = sum(len(node.drift) for node in nodes)
    with_drift = count(sum(bool(node.drift) for node in nodes), "node")
    checked = sum(not (node.busy or errors(node.diagnostics) or node.unknown) for node in nodes)
    sentences = [f"Drift: {drift} on {with_drift}."] if drift else []
    if checked and not drift:
        sentences.append(f"No drift on {count(checked, 'node')}.")
    numbers = (
        (sum(len(node.pending) for node in nodes), "pending"),
        (sum(len(node.unmanaged) for node in nodes), "not of this plan file"),
        (sum(node.suppressed for node in nodes), "suppressed by an ignore rule"),
        (sum(bool(node.busy) for node in nodes), "busy"),
    )
    sentences.extend(f"{number} {what}." for number, what in numbers if number)
    if unread := sum(bool(errors(node.diagnostics)) for node in nodes):
        sentences.append(f"{count(unread, 'node')} with errors.")
    return " ".join([*sentences, *_unread([node.unknown for node in nodes])])


def _no_changes(changes: ChangeSet, partial: bool) -> str:
    sure = [node for node in changes.nodes if not errors(node.diagnostics) and not node.unknown]
    if changes.destroy:
        return f"Nothing to destroy on {count(len(sure), 'node')}." if sure else "Nothing to destroy was found."
    if not sure or partial:
        return "No changes were found."
    verb = "is" if len(sure) == 1 else "are"
    return f"No changes. {count(len(sure), 'node')} {verb} as the plan file says."


def _doubts(nodes: Sequence[NodeChanges]) -> list[str]:
    """What keeps the summary from being the whole truth."""
    failed = sum(bool(errors(node.diagnostics)) for node in nodes)
    return [f"{count(failed, 'node')} with errors."] * bool(failed) + _unread([node.unknown for node in nodes])


def _unread(unknown: Sequence[Sequence[Unreadable]]) -> list[str]:
    """A node that could not be reached counts as a node, anything less as a resource."""
    nodes = sum(any(part.address.kind == "node" for part in parts) for parts in unknown)
    parts = sum(part.address.kind != "node" for parts in unknown for part in parts)
    told = [f"{count(nodes, 'node')} could not be read."] if nodes else []
    return [*told, f"{count(parts, 'resource')} could not be read."] if parts else told
