"""The last line of each view: a summary with numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpuplan.output.page import Page, paragraph
from gpuplan.output.text import count, count_errors, few
from gpuplan.types.change import Action, Unreadable
from gpuplan.types.changeset import ChangeSet, NodeChanges
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.finding import Report
from gpuplan.types.outcome import NodeOutcome, Status


def plan_summary(changes: ChangeSet, partial: bool = False) -> str:
    """“Plan: 2 to create, 1 to update, 0 to replace, 0 to delete on 2 nodes. 1 interrupts serving.”."""
    caveats = [*["Only the targets were compared."] * partial, *_caveats(changes.nodes)]
    if changes.empty:
        return " ".join((_no_changes(changes, partial), *caveats))
    numbers = Counter(change.action for node in changes.nodes for change in node.changes)
    touched = sum(1 for node in changes.nodes if node.changes)
    parts = ", ".join(f"{numbers[action]} to {action.name.lower()}" for action in Action)
    interrupting = sum(bool(change.interrupts) for node in changes.nodes for change in node.changes)
    head = f"{'Destroy' if changes.destroy else 'Plan'}: {parts} on {count(touched, 'node')}."
    serving = f"{interrupting} interrupt{'s' if interrupting == 1 else ''} serving." if interrupting else ""
    return " ".join(part for part in (head, serving, *caveats) if part)


def outcome_summary(outcomes: Sequence[NodeOutcome]) -> str:
    """“Apply complete: 7 steps done on 2 nodes.” or “Apply incomplete on gpu-a1: …. 1 failed, 2 skipped.”."""
    ended = Counter(step.status for outcome in outcomes for step in outcome.steps)
    failed = [outcome.node for outcome in outcomes if outcome.exit_code]
    if failed and not ended:
        return f"Not applied on {few(failed)}. No step was started."
    nodes = sum(any(step.status is Status.DONE for step in outcome.steps) for outcome in outcomes)
    done = f"{count(ended[Status.DONE], 'step')} done on {count(nodes, 'node')}." if nodes else "No step was done."
    numbers = ((ended[Status.FAILED], "failed"), (ended[Status.SKIPPED], "skipped"))
    rest = ", ".join(f"{number} {status}" for number, status in numbers if number)
    sentences = [done, f"{rest}."] if rest else [done]
    if failed:
        return " ".join((f"Apply incomplete on {few(failed)}:", *sentences))
    return " ".join(("Apply complete:", *sentences))


def report_summary(report: Report) -> str:
    """“Drift: 2 on 1 node. 1 pending. 1 unmanaged. 1 suppressed by ignore rules.”."""
    nodes = report.nodes
    drift = sum(len(node.drift) for node in nodes)
    with_drift = count(sum(bool(node.drift) for node in nodes), "node")
    checked = sum(not (node.busy or count_errors(node.diagnostics) or node.unknown) for node in nodes)
    sentences = [f"Drift: {drift} on {with_drift}."] if drift else []
    if checked and not drift:
        sentences.append(f"No drift on {count(checked, 'node')}.")
    numbers = (
        (sum(len(node.pending) for node in nodes), "pending"),
        (sum(len(node.unmanaged) for node in nodes), "unmanaged"),
        (sum(node.suppressed for node in nodes), "suppressed by ignore rules"),
        (sum(bool(node.busy) for node in nodes), "busy"),
    )
    sentences.extend(f"{number} {what}." for number, what in numbers if number)
    if unread := sum(bool(count_errors(node.diagnostics)) for node in nodes):
        sentences.append(f"{count(unread, 'node')} with errors.")
    return " ".join([*sentences, *_unread([node.unknown for node in nodes])])


def _no_changes(changes: ChangeSet, partial: bool) -> str:
    checked = [node for node in changes.nodes if not count_errors(node.diagnostics) and not node.unknown]
    if changes.destroy:
        return f"Nothing to destroy on {count(len(checked), 'node')}." if checked else "Nothing to destroy found."
    if not checked or partial:
        return "No changes found."
    verb = "matches" if len(checked) == 1 else "match"
    return f"No changes. {count(len(checked), 'node')} {verb} the plan file."


def _caveats(nodes: Sequence[NodeChanges]) -> list[str]:
    """What the summary does not cover: nodes with errors, unreadable nodes and resources."""
    failed = sum(bool(count_errors(node.diagnostics)) for node in nodes)
    return [f"{count(failed, 'node')} with errors."] * bool(failed) + _unread([node.unknown for node in nodes])


def _unread(unknown: Sequence[Sequence[Unreadable]]) -> list[str]:
    """An unreachable node counts as a node, anything else as a resource."""
    nodes = sum(any(part.address.kind == "node" for part in parts) for parts in unknown)
    parts = sum(part.address.kind != "node" for parts in unknown for part in parts)
    sentences = [f"{count(nodes, 'node')} could not be read."] if nodes else []
    return [*sentences, f"{count(parts, 'resource')} could not be read."] if parts else sentences


# What a check of a model repository comes to: a line for people, a document for scripts.


def check_summary(models: int, findings: Sequence[Diagnostic], silenced: int) -> Page:
    """One line: how many models, and how many findings of each kind."""
    errors = sum(each.severity is Severity.ERROR for each in findings)
    parts = [count(errors, "error"), count(len(findings) - errors, "warning")] if findings else ["nothing found"]
    held = describe_silenced(silenced)
    yield paragraph(f"{count(models, 'model')}: {', '.join(parts)}{f'; {held}' if held else ''}.")


def describe_silenced(silenced: int) -> str:
    """How many findings were held back; an empty text for none."""
    return f"{count(silenced, 'finding')} silenced" if silenced else ""
