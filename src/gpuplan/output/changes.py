"""The change set on a terminal: by node, what will happen to what, why, and what it interrupts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from gpuplan.output.escape import visible
from gpuplan.output.page import BLANK, Block, FieldRow, Fields, Page, paragraph
from gpuplan.output.summary import plan_summary
from gpuplan.output.value import both_sides, one_side
from gpuplan.output.words import count, errors, few, within
from gpuplan.types.change import Action, Change, FieldChange, Origin, Unmanaged, Unreadable
from gpuplan.types.changeset import ChangeSet, NodeChanges

COLOURS = {Action.CREATE: "green", Action.UPDATE: "yellow", Action.REPLACE: "magenta", Action.DELETE: "red"}

NODE = "node"
"""The kind of address by which something is said of a node as a whole."""


FEW = 5
"""So many nodes are shown one by one even where nothing changes."""


def change_set(changes: ChangeSet, steps: bool = False, partial: bool = False, verbose: bool = False) -> Page:
    """Everything but the diagnostics, with the summary at the end.

    `steps` adds the order in which it will run; `partial` says that only a part of the plan file was asked for. Of many
    nodes those without changes are summed up, unless `verbose`.
    """
    quiet = [] if verbose or len(changes.nodes) <= FEW else [node for node in changes.nodes if _quiet(node)]
    names = {node.node for node in quiet}
    for node in changes.nodes:
        if node.node in names:
            continue
        yield from node_changes(node)
        if steps and node.order:
            yield from _steps(node)
        yield BLANK
    yield from _summed_up(quiet)
    yield paragraph(Text(plan_summary(changes, partial), "bold"))


def node_changes(node: NodeChanges) -> Iterator[Block]:
    """One node under its name."""
    yield paragraph(Text(visible(node.node), "bold"))
    for change in node.changes:
        yield from change_block(node.node, change)
    if not node.changes and not whole_node(node.unknown):
        yield paragraph(_nothing(node), "  ")
    yield from left_alone(node.node, node.unmanaged)
    yield from not_read(node.node, node.unknown)


def change_block(node: str, change: Change) -> Iterator[Block]:
    """One change: its sign and address, its fields, why, and what it interrupts."""
    colour = COLOURS[change.action]
    head = Text(within(node, change.address), "bold")
    if change.origin is Origin.DRIFT:
        head.append("  (changed on the node)", "dim")
    yield paragraph(head, Text.assemble("  ", (change.action.value, colour), " "))
    if change.fields:
        yield Fields([_field_row(change.action, field) for field in change.fields], indent=6)
    for reason in change.reasons:
        yield paragraph(Text(visible(reason), "dim"), "      · ")
    if change.cause:
        yield paragraph(Text(f"because of {within(node, change.cause)}", "dim"), "      · ")
    for interruption in change.interrupts:
        yield paragraph(Text(f"interrupts serving: {visible(interruption)}", "bold red"), Text("      ! ", "bold red"))


def left_alone(node: str, things: tuple[Unmanaged, ...]) -> Iterator[Block]:
    """What gpuplan did not make and does not touch; marked where it stands in the way."""
    if welcome := [thing for thing in things if thing.as_wanted and not thing.sees]:
        told = "made by somebody else, as the plan file wants it, left alone (adopt: true takes it over):"
        yield paragraph(told, "  ")
        yield paragraph(", ".join(within(node, thing.address) for thing in welcome), "      ")
    if strangers := [thing for thing in things if thing not in welcome]:
        yield paragraph("not of this plan file, left alone:", "  ")
    for thing in strangers:
        text = f"{within(node, thing.address)}  {visible(thing.what)}"
        if thing.in_the_way_of is None and not thing.sees:
            yield paragraph(text, "      ")
            continue
        if thing.sees:
            text += f"; not isolated: it sees {', '.join(within(node, each) for each in thing.sees)}"
        if thing.in_the_way_of is not None:
            guard = f" (guard {visible(thing.guard)})" if thing.guard else ""
            text += f"; in the way of {within(node, thing.in_the_way_of)}{guard}"
        yield paragraph(Text(text, "yellow"), Text("    ! ", "yellow"))


def not_read(node: str, parts: tuple[Unreadable, ...]) -> Iterator[Block]:
    """What could not be read; nothing is planned from it."""
    for part in whole_node(parts):
        yield paragraph(Text(f"Not read: {visible(part.diagnostic.summary)}.", "yellow"), Text("  ? ", "yellow"))
    rest = [part for part in parts if part.address.kind != NODE]
    if rest:
        yield paragraph("could not be read, so nothing is said of it:", "  ")
    for part in rest:
        why = f"because of {within(node, part.cause)}" if part.cause else visible(part.diagnostic.summary)
        told = f"{within(node, part.address)}  {why}"
        yield paragraph(Text(told, "yellow"), Text("    ? ", "yellow"))


def whole_node(parts: Sequence[Unreadable]) -> list[Unreadable]:
    """Why the node as a whole could not be read; empty where it was."""
    return [part for part in parts if part.address.kind == NODE]


def _field_row(action: Action, change: FieldChange) -> FieldRow:
    path = visible(change.path)
    if action is Action.CREATE and change.before is None:
        return FieldRow(path, None, one_side(change.after, change.sensitive))
    if action is Action.DELETE and change.after is None:
        return FieldRow(path, None, one_side(change.before, change.sensitive))
    return FieldRow(path, *both_sides(change))


def _quiet(node: NodeChanges) -> bool:
    """Nothing is to be said of it but that nothing changes; what is not of the plan file is there every day."""
    in_the_way = any(thing.in_the_way_of is not None or thing.sees for thing in node.unmanaged)
    return not (node.changes or node.unknown or in_the_way or errors(node.diagnostics))


def _summed_up(quiet: Sequence[NodeChanges]) -> Iterator[Block]:
    """Those with resources, and those of which the plan file wants nothing."""
    for nodes in ([node for node in quiet if node.resources], [node for node in quiet if not node.resources]):
        if not nodes:
            continue
        compared = count(sum(node.resources for node in nodes), "resource")
        words = f"No changes. {compared} compared on {count(len(nodes), 'node')}."
        yield paragraph(Text(few([node.node for node in nodes]), "bold"))
        yield paragraph(Text(words if nodes[0].resources else "Nothing of the plan file is here.", "dim"), "  ")
        if left := sum(len(node.unmanaged) for node in nodes):
            told = f"{count(left, 'thing')} not of this plan file, left alone; --verbose names them."
            yield paragraph(Text(told, "dim"), "  ")
        yield BLANK


def _nothing(node: NodeChanges) -> Text:
    if number := errors(node.diagnostics):
        return Text(f"Not planned: {count(number, 'error')}.", "red")
    if node.unknown:
        return Text("No changes in what could be read.")
    if not node.resources:
        return Text("Nothing of the plan file is here.", "dim")
    return Text(f"No changes. {count(node.resources, 'resource')} compared.", "dim")


def _steps(node: NodeChanges) -> Iterator[Block]:
    titles = {step.id: step.title for change in node.changes for step in change.steps}
    yield paragraph("steps, in this order:", "  ")
    for number, step in enumerate(node.order, start=1):
        yield paragraph(visible(titles.get(step, step)), f"    {number:>3}. ")
