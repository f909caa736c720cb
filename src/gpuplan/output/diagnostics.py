"""Diagnostics on a terminal: what, where (with the line of the file), why, and how to fix it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from rich.text import Text

from gpuplan.output.page import BLANK, Block, Excerpt, Page, paragraph
from gpuplan.output.text import rows, shorten, visible
from gpuplan.types.diagnostic import Diagnostic, Location, Severity

Source = Callable[[Location], str | None]
"""Returns the line at a location, or None if it cannot be read."""
COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow"}
COMMAND = "    "
"""The indent of a command in a fix; such a row never wraps, so that it can be copied."""
MAX_SHOWN = 50
"""Problems that are shown in full."""
MAX_ADDRESSES = 20
"""Addresses that are listed for one problem."""


def no_source(where: Location) -> str | None:  # noqa: ARG001  (the signature is that of Source)
    """A source without any file."""
    return None


def render_diagnostics(diagnostics: Sequence[Diagnostic], source: Source = no_source, limit: int = MAX_SHOWN) -> Page:
    """Each problem once with all its addresses; warnings first, so that errors are nearest to the prompt.

    At most `limit` problems are shown, errors before warnings; the rest is counted.
    """
    addresses = group_by_problem(diagnostics)
    shown = sorted(addresses, key=_is_warning)[:limit]
    for diagnostic in sorted(shown, key=_is_warning, reverse=True):
        yield BLANK
        yield from _render(diagnostic, [visible(address) for address in addresses[diagnostic] if address], source)
    if more := len(addresses) - len(shown):
        yield BLANK
        yield paragraph(f"{more} more not shown; use --json for all of them.")


def group_by_problem(diagnostics: Sequence[Diagnostic]) -> Mapping[Diagnostic, Mapping[str, None]]:
    """Each problem without its address → all its addresses."""
    addresses: dict[Diagnostic, dict[str, None]] = {}
    for diagnostic in diagnostics:
        addresses.setdefault(replace(diagnostic, address=""), {})[diagnostic.address] = None
    return addresses


def _is_warning(diagnostic: Diagnostic) -> bool:
    return diagnostic.severity is Severity.WARNING


def _render(diagnostic: Diagnostic, addresses: Sequence[str], source: Source) -> Iterator[Block]:
    colour = COLOURS[diagnostic.severity]
    head = Text.assemble((f"{diagnostic.severity.value.capitalize()}: ", colour), (visible(diagnostic.summary), "bold"))
    if diagnostic.check:
        head.append(f"  [{visible(diagnostic.check)}]", "dim")
    where = [visible(str(diagnostic.where))] if diagnostic.where else []
    yield _ruled(head, colour)
    if places := [*where, *shorten(addresses, MAX_ADDRESSES)]:
        yield _ruled(Text(", ".join(places)), colour)
    if diagnostic.where and (line := source(diagnostic.where)) is not None:
        yield Excerpt(line, diagnostic.where.line, diagnostic.where.column, colour)
    for row in rows(diagnostic.detail):
        yield _ruled(Text(row), colour)
    for number, row in enumerate(rows(diagnostic.fix)):
        yield _ruled(Text(row), colour, "  " if number else "→ ", wraps=not row.startswith(COMMAND))


def _ruled(body: Text, colour: str, lead: str = "", wraps: bool = True) -> Block:
    return paragraph(
        body,
        Text.assemble(("│ ", colour), (lead, "dim")),
        Text.assemble(("│ ", colour), " " * len(lead)),
        wraps,
    )
