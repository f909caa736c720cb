"""Diagnostics on a terminal: what, where with the line of the file, why, and what to do, behind a left rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from rich.text import Text

from gpuplan.output.escape import rows, visible
from gpuplan.output.excerpt import Excerpt
from gpuplan.output.page import BLANK, Block, Page, paragraph
from gpuplan.output.words import some
from gpuplan.types.diagnostic import Diagnostic, Location, Severity

Source = Callable[[Location], str | None]
"""The text of the line that a location names, or None where it cannot be read."""
COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow"}
COMMAND = "    "
"""What a row of a fix begins with that is to be run as it stands: it is never wrapped, so that it can be copied."""
MOST = 50
"""Problems that are shown in full."""
MOST_ADDRESSES = 20
"""Addresses of one problem that are named."""


def no_source(where: Location) -> str | None:  # noqa: ARG001  (the signature is that of Source)
    """For whoever has no files at hand."""
    return None


def diagnostics(told: Sequence[Diagnostic], source: Source = no_source, most: int = MOST) -> Page:
    """Each problem once with all that it is about, warnings first so that errors stand nearest to the prompt.

    Of more than `most` the errors are shown before the warnings; of the rest there is only the number.
    """
    addresses = together(told)
    shown = sorted(addresses, key=_is_warning)[:most]
    for diagnostic in sorted(shown, key=_is_warning, reverse=True):
        yield BLANK
        yield from _one(diagnostic, [visible(address) for address in addresses[diagnostic] if address], source)
    if more := len(addresses) - len(shown):
        yield BLANK
        yield paragraph(f"and {more} more; --json tells all of them.")


def together(told: Sequence[Diagnostic]) -> Mapping[Diagnostic, Mapping[str, None]]:
    """Each problem without its address → all addresses that have it."""
    addresses: dict[Diagnostic, dict[str, None]] = {}
    for diagnostic in told:
        addresses.setdefault(replace(diagnostic, address=""), {})[diagnostic.address] = None
    return addresses


def _is_warning(diagnostic: Diagnostic) -> bool:
    return diagnostic.severity is Severity.WARNING


def _one(diagnostic: Diagnostic, addresses: Sequence[str], source: Source) -> Iterator[Block]:
    colour = COLOURS[diagnostic.severity]
    head = Text.assemble((f"{diagnostic.severity.value.capitalize()}: ", colour), (visible(diagnostic.summary), "bold"))
    if diagnostic.check:
        head.append(f"  [{visible(diagnostic.check)}]", "dim")
    where = [visible(str(diagnostic.where))] if diagnostic.where else []
    yield _ruled(head, colour)
    if places := [*where, *some(addresses, MOST_ADDRESSES)]:
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
