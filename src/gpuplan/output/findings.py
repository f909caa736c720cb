"""The drift report on a terminal: each thing that changed on a node, with what follows from it beneath."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from gpuplan.output.changes import left_alone, not_read
from gpuplan.output.escape import visible
from gpuplan.output.page import BLANK, Block, FieldRow, Fields, Page, paragraph
from gpuplan.output.summary import report_summary
from gpuplan.output.value import both_sides
from gpuplan.output.words import count, duration, errors, within
from gpuplan.types.change import Action, FieldChange
from gpuplan.types.finding import Drift, NodeFindings, Report

WORDS = {
    Action.CREATE: ("is missing", "✗", "red"),
    Action.UPDATE: ("changed", "~", "yellow"),
    Action.REPLACE: ("changed", "±", "magenta"),
    Action.DELETE: ("is there again", "+", "red"),
}
"""What drift is called, by the action that would undo it."""


def report(checked: Report, verbose: bool = False) -> Page:
    """All findings but the diagnostics; nothing at all when every node is in sync, unless `verbose`."""
    telling = [node for node in checked.nodes if _tells(node)]
    if not telling:
        if verbose:
            yield paragraph(_in_sync(checked))
        return
    for node in checked.nodes if verbose else telling:
        yield from _node(node)
        yield BLANK
    yield paragraph(Text(report_summary(checked), "bold"))


def _tells(node: NodeFindings) -> bool:
    return bool(node.drift or node.unmanaged or node.pending or node.unknown or node.busy or errors(node.diagnostics))


def _in_sync(checked: Report) -> str:
    nodes = count(len(checked.nodes), "node")
    verb = "is" if len(checked.nodes) == 1 else "are"
    held = sum(node.suppressed for node in checked.nodes)
    rest = f" {count(held, 'finding')} suppressed by an ignore rule." if held else ""
    return f"In sync: {nodes} {verb} as last applied. Checked in {duration(checked.seconds)}.{rest}"


def _node(node: NodeFindings) -> Iterator[Block]:
    yield paragraph(Text(visible(node.node), "bold"))
    if node.busy:
        yield paragraph(Text(f"busy: {visible(node.busy)}", "yellow"), "  ")
    if number := errors(node.diagnostics):
        yield paragraph(Text(f"Not checked: {count(number, 'error')}.", "red"), "  ")
    elif not _tells(node):
        yield paragraph(Text("In sync.", "dim"), "  ")
    for drift in node.drift:
        yield from _drift(node.node, drift)
    if node.pending:
        yield paragraph("pending, the plan file is ahead of what was applied:", "  ")
    for address in node.pending:
        yield paragraph(within(node.node, address), "      ")
        fields = [field for change in node.rotated if change.address == address for field in change.fields]
        if fields:
            yield Fields([_field_row(field) for field in fields], indent=10)
    yield from left_alone(node.node, node.unmanaged)
    yield from not_read(node.node, node.unknown)


def _drift(node: str, drift: Drift) -> Iterator[Block]:
    change = drift.change
    word, sign, colour = WORDS[change.action]
    yield paragraph(
        Text.assemble((within(node, change.address), "bold"), f"  {word}"), Text.assemble("  ", (sign, colour), " ")
    )
    if table := [_field_row(field) for field in change.fields if _tells_more(change.action, field)]:
        yield Fields(table, indent=6)
    for reason in change.reasons:
        yield paragraph(Text(visible(reason), "dim"), "      · ")
    for dependant in drift.dependants:
        yield paragraph(f"{within(node, dependant)} follows from it", "      ↳ ")


def _tells_more(action: Action, field: FieldChange) -> bool:
    """Of what is missing altogether, or should be, that is all there is to say."""
    return action in (Action.UPDATE, Action.REPLACE) or (action is Action.CREATE and field.before is not None)


def _field_row(field: FieldChange) -> FieldRow:
    """As last applied → as it is now: the other way round than a change, which says what will be done about it."""
    now, applied = both_sides(field)
    return FieldRow(visible(field.path), *((now, applied) if field.sensitive else (applied, now)))
