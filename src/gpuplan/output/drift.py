"""The drift report on a terminal: each resource that changed on a node, with its dependants."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from gpuplan.output.change_set import render_unmanaged, render_unreadable
from gpuplan.output.page import BLANK, Block, FieldRow, Fields, Page, paragraph
from gpuplan.output.summary import report_summary
from gpuplan.output.text import count, count_errors, duration, visible, within
from gpuplan.output.value import format_change
from gpuplan.types.change import Action, FieldChange
from gpuplan.types.report import Drift, NodeFindings, Report

LABELS = {
    Action.CREATE: ("is missing", "✗", "red"),
    Action.UPDATE: ("changed", "~", "yellow"),
    Action.REPLACE: ("changed", "±", "magenta"),
    Action.DELETE: ("exists again", "+", "red"),
}
"""How drift is shown, by the action that would undo it: label, sign, colour."""


def render_drift_report(report: Report, verbose: bool = False) -> Page:
    """All findings but the diagnostics; nothing if every node is in sync, unless `verbose`."""
    reported = [node for node in report.nodes if _has_findings(node)]
    if not reported:
        if verbose:
            yield paragraph(_in_sync(report))
        return
    for node in report.nodes if verbose else reported:
        yield from _node(node)
        yield BLANK
    yield paragraph(Text(report_summary(report), "bold"))


def _has_findings(node: NodeFindings) -> bool:
    return bool(
        node.drift or node.unmanaged or node.pending or node.unknown or node.busy or count_errors(node.diagnostics)
    )


def _in_sync(report: Report) -> str:
    nodes = count(len(report.nodes), "node")
    verb = "matches" if len(report.nodes) == 1 else "match"
    suppressed = sum(node.suppressed for node in report.nodes)
    note = f" {count(suppressed, 'finding')} suppressed by ignore rules." if suppressed else ""
    return f"In sync: {nodes} {verb} the last apply. Checked in {duration(report.seconds)}.{note}"


def _node(node: NodeFindings) -> Iterator[Block]:
    yield paragraph(Text(visible(node.node), "bold"))
    if node.busy:
        yield paragraph(Text(f"busy: {visible(node.busy)}", "yellow"), "  ")
    if number := count_errors(node.diagnostics):
        yield paragraph(Text(f"Not checked: {count(number, 'error')}.", "red"), "  ")
    elif not _has_findings(node):
        yield paragraph(Text("In sync.", "dim"), "  ")
    for drift in node.drift:
        yield from _drift(node.node, drift)
    if node.pending:
        yield paragraph("pending (the plan file changed since the last apply):", "  ")
    for address in node.pending:
        yield paragraph(within(node.node, address), "      ")
        fields = [field for change in node.rotated if change.address == address for field in change.fields]
        if fields:
            yield Fields([_field_row(field) for field in fields], indent=10)
    yield from render_unmanaged(node.node, node.unmanaged)
    yield from render_unreadable(node.node, node.unknown)


def _drift(node: str, drift: Drift) -> Iterator[Block]:
    change = drift.change
    label, sign, colour = LABELS[change.action]
    yield paragraph(
        Text.assemble((within(node, change.address), "bold"), f"  {label}"), Text.assemble("  ", (sign, colour), " ")
    )
    if table := [_field_row(field) for field in change.fields if _has_detail(change.action, field)]:
        yield Fields(table, indent=6)
    for reason in change.reasons:
        yield paragraph(Text(visible(reason), "dim"), "      · ")
    for dependant in drift.dependants:
        yield paragraph(f"affects {within(node, dependant)}", "      ↳ ")


def _has_detail(action: Action, field: FieldChange) -> bool:
    """A resource that is missing, or exists again, needs no fields."""
    return action in (Action.UPDATE, Action.REPLACE) or (action is Action.CREATE and field.before is not None)


def _field_row(field: FieldChange) -> FieldRow:
    """As last applied → now; a change shows the opposite direction, what apply would do."""
    now, applied = format_change(field)
    return FieldRow(visible(field.path), *((now, applied) if field.sensitive else (applied, now)))
