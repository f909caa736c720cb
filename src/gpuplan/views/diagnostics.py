"""Diagnostics on a terminal: what, where with the line of the file, why, and what to do, behind a left rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from rich.text import Text

from gpuplan.model.diagnostic import Diagnostic, Location, Severity
from gpuplan.views.escape import rows, visible
from gpuplan.views.page import BLANK, Block, Page, paragraph

Source = Callable[[Location], str | None]
"""The text of the line that a location names, or None where it cannot be read."""
COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow"}
COMMAND = "    "
"""What a row of a fix begins with that is to be run as it stands: it is never wrapped, so that it can be copied."""
LONGEST_LINE = 200
"""Characters of a source line that are shown."""


def no_source(where: Location) -> str | None:  # noqa: ARG001  (the signature is that of Source)
    """For whoever has no files at hand."""
    return None


def diagnostics(told: Sequence[Diagnostic], source: Source = no_source) -> Page:
    """Each problem once with all that it is about, warnings first so that errors stand nearest to the prompt."""
    addresses: dict[Diagnostic, dict[str, None]] = {}
    for diagnostic in told:
        addresses.setdefault(replace(diagnostic, address=""), {})[diagnostic.address] = None
    for diagnostic in sorted(addresses, key=lambda each: each.severity is Severity.ERROR):
        yield BLANK
        yield from _one(diagnostic, [visible(address) for address in addresses[diagnostic] if address], source)


def _one(diagnostic: Diagnostic, addresses: Sequence[str], source: Source) -> Iterator[Block]:
    colour = COLOURS[diagnostic.severity]
    head = Text.assemble((f"{diagnostic.severity.value.capitalize()}: ", colour), (visible(diagnostic.summary), "bold"))
    if diagnostic.check:
        head.append(f"  [{visible(diagnostic.check)}]", "dim")
    where = [visible(str(diagnostic.where))] if diagnostic.where else []
    yield _ruled(head, colour)
    if places := [*where, *addresses]:
        yield _ruled(Text(", ".join(places)), colour)
    if diagnostic.where and (line := source(diagnostic.where)) is not None:
        yield from _excerpt(diagnostic.where, line, colour)
    for row in rows(diagnostic.detail):
        yield _ruled(Text(row), colour)
    for number, row in enumerate(rows(diagnostic.fix)):
        yield _ruled(Text(row), colour, "  " if number else "→ ", wraps=not row.startswith(COMMAND))


def _excerpt(where: Location, line: str, colour: str) -> Iterator[Block]:
    shown = visible(line.expandtabs(1))[:LONGEST_LINE]
    number = f"{where.line:>6} │ "
    yield _ruled(Text(shown), colour, number)
    if 0 < where.column <= len(shown) + 1:
        yield _ruled(Text(" " * (where.column - 1) + "^", colour), colour, " " * 7 + "│ ")


def _ruled(body: Text, colour: str, lead: str = "", wraps: bool = True) -> Block:
    return paragraph(
        body,
        Text.assemble(("│ ", colour), (lead, "dim")),
        Text.assemble(("│ ", colour), " " * len(lead)),
        wraps,
    )
