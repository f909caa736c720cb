"""Exit codes: what a script learns from a run, the same for every command (docs/commands.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuplan.types.changeset import ChangeSet
from gpuplan.types.diagnostic import Diagnostic, Exit, Severity
from gpuplan.types.finding import Report
from gpuplan.types.outcome import NodeOutcome


def of_plan(change_set: ChangeSet, detailed: bool) -> Exit:
    """1 where the plan is impossible somewhere, 4 where a node was not read, 2 for changes when asked for."""
    if any(faults(node.diagnostics) for node in change_set.nodes):
        return Exit.ERROR
    if any(node.unknown for node in change_set.nodes):
        return Exit.UNREAD
    return Exit.CHANGES if detailed and not change_set.empty else Exit.DONE


def of_outcomes(outcomes: Sequence[NodeOutcome]) -> Exit:
    """The worst node's code: an error before stale, busy, refused and unread."""
    codes = {Exit(outcome.exit_code) for outcome in outcomes}
    order = (Exit.ERROR, Exit.STALE, Exit.BUSY, Exit.REFUSED, Exit.UNREAD)
    return next((code for code in order if code in codes), Exit.DONE)


def of_report(report: Report) -> Exit:
    """The first that holds of 1 error, 4 unread, 5 busy, 2 drift, 3 pending; else 0."""
    nodes = report.nodes
    if faults(report.diagnostics) or any(faults(node.diagnostics) for node in nodes):
        return Exit.ERROR
    if any(node.unknown for node in nodes):
        return Exit.UNREAD
    if any(node.busy for node in nodes):
        return Exit.BUSY
    if any(node.drift or node.unmanaged for node in nodes):
        return Exit.CHANGES
    return Exit.PENDING if any(node.pending for node in nodes) else Exit.DONE


def faults(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The diagnostics that are errors, without the warnings."""
    return tuple(each for each in diagnostics if each.severity is Severity.ERROR)
