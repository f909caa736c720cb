"""The change set on a terminal: by node, what will change, why, and what it interrupts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from gpuplan.output.page import BLANK, Block, FieldRow, Fields, Page, paragraph
from gpuplan.output.summary import plan_summary
from gpuplan.output.text import count, count_errors, few, visible, within
from gpuplan.output.value import format_change, format_one
from gpuplan.types.change import Action, Change, FieldChange, Origin, Unmanaged, Unreadable
from gpuplan.types.changeset import ChangeSet, NodeChanges

COLOURS = {Action.CREATE: "green", Action.UPDATE: "yellow", Action.REPLACE: "magenta", Action.DELETE: "red"}

NODE = "node"
"""The kind of an address that means a node as a whole."""


MAX_UNCHANGED = 5
"""Up to this many nodes, all are shown, including those without changes."""


def render_change_set(changes: ChangeSet, steps: bool = False, partial: bool = False, verbose: bool = False) -> Page:
    """Everything but the diagnostics, with the summary at the end.

    `steps` adds the order of the steps; `partial` means that only some resources were compared. If there are many
    nodes, those without changes are summed up, unless `verbose`.
    """
    many = len(changes.nodes) > MAX_UNCHANGED and not verbose
    unchanged = [node for node in changes.nodes if many and _is_unchanged(node)]
    names = {node.node for node in unchanged}
    for node in changes.nodes:
        if node.node in names:
            continue
        yield from render_node_changes(node)
        if steps and node.order:
            yield from _steps(node)
        yield BLANK
    yield from _sum_up(unchanged)
    yield paragraph(Text(plan_summary(changes, partial), "bold"))


def render_node_changes(node: NodeChanges) -> Iterator[Block]:
    """One node under its name."""
    yield paragraph(Text(visible(node.node), "bold"))
    for change in node.changes:
        yield from render_change(node.node, change)
    if not node.changes and not node_errors(node.unknown):
        yield paragraph(_no_changes(node), "  ")
    yield from render_unmanaged(node.node, node.unmanaged)
    yield from render_unreadable(node.node, node.unknown)


def render_change(node: str, change: Change) -> Iterator[Block]:
    """A change: its sign and address, its fields, the reasons, and what it interrupts."""
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


def render_unmanaged(node: str, resources: tuple[Unmanaged, ...]) -> Iterator[Block]:
    """Unmanaged resources; marked if they block a change or are not isolated."""
    matching = [resource for resource in resources if resource.as_wanted and not resource.sees]
    if matching:
        yield paragraph("unmanaged, matches the plan file (set adopt: true to manage it):", "  ")
        yield paragraph(", ".join(within(node, resource.address) for resource in matching), "      ")
    if others := [resource for resource in resources if resource not in matching]:
        yield paragraph("unmanaged:", "  ")
    for resource in others:
        text = f"{within(node, resource.address)}  {visible(resource.what)}"
        if resource.in_the_way_of is None and not resource.sees:
            yield paragraph(text, "      ")
            continue
        if resource.sees:
            text += f"; not isolated: has access to {', '.join(within(node, address) for address in resource.sees)}"
        if resource.in_the_way_of is not None:
            guard = f" (guard {visible(resource.guard)})" if resource.guard else ""
            text += f"; blocks {within(node, resource.in_the_way_of)}{guard}"
        yield paragraph(Text(text, "yellow"), Text("    ! ", "yellow"))


def render_unreadable(node: str, parts: tuple[Unreadable, ...]) -> Iterator[Block]:
    """What could not be read, so that nothing is planned for it."""
    for error in node_errors(parts):
        text = f"Could not be read: {visible(error.diagnostic.summary)}."
        yield paragraph(Text(text, "yellow"), Text("  ? ", "yellow"))
    resources = [part for part in parts if part.address.kind != NODE]
    if resources:
        yield paragraph("could not be read:", "  ")
    for resource in resources:
        why = f"because of {within(node, resource.cause)}" if resource.cause else visible(resource.diagnostic.summary)
        text = f"{within(node, resource.address)}  {why}"
        yield paragraph(Text(text, "yellow"), Text("    ? ", "yellow"))


def node_errors(parts: Sequence[Unreadable]) -> list[Unreadable]:
    """Why the node as a whole could not be read; empty if it was read."""
    return [part for part in parts if part.address.kind == NODE]


def _field_row(action: Action, change: FieldChange) -> FieldRow:
    path = visible(change.path)
    if action is Action.CREATE and change.before is None:
        return FieldRow(path, None, format_one(change.after, change.sensitive))
    if action is Action.DELETE and change.after is None:
        return FieldRow(path, None, format_one(change.before, change.sensitive))
    return FieldRow(path, *format_change(change))


def _is_unchanged(node: NodeChanges) -> bool:
    """True if there is nothing to report; harmless unmanaged resources do not count."""
    conflicts = any(resource.in_the_way_of is not None or resource.sees for resource in node.unmanaged)
    return not (node.changes or node.unknown or conflicts or count_errors(node.diagnostics))


def _sum_up(unchanged: Sequence[NodeChanges]) -> Iterator[Block]:
    """Nodes with resources, and nodes without any in the plan file."""
    for nodes in ([node for node in unchanged if node.resources], [node for node in unchanged if not node.resources]):
        if not nodes:
            continue
        compared = count(sum(node.resources for node in nodes), "resource")
        text = f"No changes. {compared} compared on {count(len(nodes), 'node')}."
        yield paragraph(Text(few([node.node for node in nodes]), "bold"))
        yield paragraph(Text(text if nodes[0].resources else "No resources in the plan file.", "dim"), "  ")
        if unmanaged := sum(len(node.unmanaged) for node in nodes):
            text = f"{count(unmanaged, 'unmanaged resource')}; use --verbose to list them."
            yield paragraph(Text(text, "dim"), "  ")
        yield BLANK


def _no_changes(node: NodeChanges) -> Text:
    if number := count_errors(node.diagnostics):
        return Text(f"Not planned: {count(number, 'error')}.", "red")
    if node.unknown:
        return Text("No changes in the resources that could be read.")
    if not node.resources:
        return Text("No resources in the plan file.", "dim")
    return Text(f"No changes. {count(node.resources, 'resource')} compared.", "dim")


def _steps(node: NodeChanges) -> Iterator[Block]:
    titles = {step.id: step.title for change in node.changes for step in change.steps}
    yield paragraph("steps in order:", "  ")
    for number, step in enumerate(node.order, start=1):
        yield paragraph(visible(titles.get(step, step)), f"    {number:>3}. ")
