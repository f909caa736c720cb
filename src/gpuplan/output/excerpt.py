"""A line of a file with a mark under one of its columns, cut around it so that it never wraps."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len, get_character_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from gpuplan.output.escape import visible
from gpuplan.types.value import PRIVATE

NARROWEST = 20
"""Columns that the line gets even where the terminal has fewer."""
CUT = "…"


@dataclass(frozen=True)
class Excerpt:
    """One line with its number, behind the left rule of a diagnostic; `column` counts from 1, 0 marks nothing."""

    line: str
    number: int
    column: int
    colour: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The line in one row, and the mark in the next."""
        number = f"{self.number:>6} │ "
        rule = ("│ ", self.colour)
        line, cell = around(self.line, self.column, max(NARROWEST, options.max_width - len(number) - 2))
        row = Text.assemble(rule, (number, "dim"), line)
        row.rstrip()
        yield row
        if cell is not None:
            lead = f"{' ' * (len(number) - 2)}│ "
            yield Text.assemble(rule, (lead, "dim"), " " * cell, ("^", self.colour))


def around(line: str, column: int, width: int) -> tuple[str, int | None]:
    """What of the line fits `width` cells, and in which of them, from 0, the column is; None where nothing is marked.

    A column inside what is hidden marks nothing.
    """
    end = len(line) - len(PRIVATE) if line.endswith(PRIVATE) else len(line)
    marks = 1 <= column <= end + 1
    place = min(max(column - 1, 0), end)
    start = max(0, place - width)
    raw = line[start : place + width]
    before, after = (_plain(part) for part in (raw[: place - start], raw[place - start :]))
    whole = start == 0 and start + len(raw) == len(line)
    if not (whole and cell_len(before) + cell_len(after) <= width):
        if start or cell_len(before) > 2 * width // 3:
            before = CUT + _head(before[::-1], width // 2 - 1)[::-1]
        room = width - cell_len(before)
        if cell_len(after) > room or start + len(raw) < len(line):
            after = _head(after, room - 1) + CUT
    return before + after, cell_len(before) if marks else None


def _plain(text: str) -> str:
    return visible(text.replace("\t", " "))


def _head(text: str, cells: int) -> str:
    """As much of the beginning as fits."""
    used = 0
    for number, character in enumerate(text):
        used += get_character_cell_size(character)
        if used > cells:
            return text[:number]
    return text
