"""The parts of terminal views (paragraphs, field tables, excerpts of files) and the terminal they are printed on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO, TypeAlias

from rich.cells import cell_len, get_character_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.text import Text

from gpuplan.output.text import visible
from gpuplan.types.value import SENSITIVE

MIN_WIDTH = 20
"""Columns that text gets even if the terminal has fewer."""
PIPE_WIDTH = 100
"""Columns of text for a file or a pipe, unless COLUMNS is set."""
BATCH = 200
"""Blocks that are printed in one call."""
CUT = "…"


@dataclass(frozen=True)
class Paragraph:
    """Text that wraps, with `lead` before its first row and `hang` before each further row."""

    body: Text
    lead: Text
    hang: Text
    wraps: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Rows no wider than the page, long words folded."""
        width = max(MIN_WIDTH, options.max_width - self.lead.cell_len)
        if not self.wraps or self.body.cell_len <= width:  # the usual case, and wrapping is slow
            line = Text.assemble(self.lead, self.body)
            line.rstrip()
            yield line
            return
        for number, row in enumerate(self.body.wrap(console, width, overflow="fold") or [Text()]):
            line = Text.assemble(self.hang if number else self.lead, row)
            line.rstrip()
            yield line


@dataclass(frozen=True)
class FieldRow:
    """One row of a field table; `before` is None if there is only one value to show."""

    path: str
    before: str | None
    after: str
    style: str = ""


@dataclass(frozen=True)
class Fields:
    """Paths, values before and values after in aligned columns; a pair too wide for one row takes two."""

    table: Sequence[FieldRow]
    indent: int
    widest_path: int = 26
    widest_before: int = 40

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Each field in one row if the page is wide enough."""
        path_width = _widest((row.path for row in self.table), self.widest_path)
        before_width = _widest((row.before for row in self.table if row.before is not None), self.widest_before)
        for row in self.table:
            for part in self._rows(row, path_width, before_width, options.max_width):
                yield from part.__rich_console__(console, options)

    def _rows(self, row: FieldRow, path_width: int, before_width: int, width: int) -> Iterable[Paragraph]:
        label = f"{' ' * self.indent}{_padded(row.path, path_width)}  "
        column = self.indent + path_width + 2
        if max(cell_len(label), column) + MIN_WIDTH > width:
            yield paragraph(row.path, " " * self.indent)
            column = self.indent + 4
            label = " " * column
        if row.before is None:
            yield paragraph(Text(row.after, row.style), label, " " * column)
            return
        pair = f"{_padded(row.before, before_width)} → {row.after}"
        if cell_len(label) + cell_len(pair) <= width:
            yield paragraph(Text(pair, row.style), label)
            return
        yield paragraph(Text(row.before, row.style), label, " " * column)
        yield paragraph(Text(row.after, row.style), f"{' ' * (column - 2)}→ ", " " * column)


@dataclass(frozen=True)
class Excerpt:
    """A line of a file with its number and a mark under `column` (from 1; 0: no mark), cut so that it never wraps."""

    line: str
    number: int
    column: int
    colour: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The line in one row and the mark in the next."""
        number = f"{self.number:>6} │ "
        rule = ("│ ", self.colour)
        line, cell = cut_around(self.line, self.column, max(MIN_WIDTH, options.max_width - len(number) - 2))
        row = Text.assemble(rule, (number, "dim"), line)
        row.rstrip()
        yield row
        if cell is not None:
            lead = f"{' ' * (len(number) - 2)}│ "
            yield Text.assemble(rule, (lead, "dim"), " " * cell, ("^", self.colour))


Block: TypeAlias = Paragraph | Fields | Excerpt
Page: TypeAlias = Iterable[Block]


def paragraph(body: Text | str, lead: Text | str = "", hang: Text | str | None = None, wraps: bool = True) -> Paragraph:
    """A paragraph; without `hang`, further rows are indented like the first."""
    first = Text(lead) if isinstance(lead, str) else lead
    rest = " " * first.cell_len if hang is None else hang
    return Paragraph(
        Text(body) if isinstance(body, str) else body, first, Text(rest) if isinstance(rest, str) else rest, wraps
    )


BLANK = paragraph("")


def open_console(stream: IO[str], environ: Mapping[str, str] = os.environ) -> Console:
    """A rich console: as wide as the terminal; without colour for pipes, NO_COLOR and TERM=dumb."""
    is_terminal = stream.isatty()
    plain = not is_terminal or bool(environ.get("NO_COLOR")) or environ.get("TERM") in ("dumb", "unknown")
    return Console(
        file=stream,
        width=None if is_terminal or environ.get("COLUMNS", "").isdigit() else PIPE_WIDTH,
        color_system=None if plain else "auto",
        force_terminal=is_terminal,
        legacy_windows=False,
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=False,
        _environ=environ,
    )


def draw(page: Page, console: Console) -> None:
    """Print a page."""
    blocks = iter(page)
    while batch := tuple(islice(blocks, BATCH)):
        console.print(Group(*batch), crop=False, overflow="ignore", no_wrap=True)


def cut_around(line: str, column: int, width: int) -> tuple[str, int | None]:
    """The part of the line that fits `width` cells, and the cell (from 0) to mark; None if nothing is marked.

    A column inside a redacted value is not marked.
    """
    end = len(line) - len(SENSITIVE) if line.endswith(SENSITIVE) else len(line)
    marks = 1 <= column <= end + 1
    index = min(max(column - 1, 0), end)
    start = max(0, index - width)
    raw = line[start : index + width]
    before, after = (_plain(part) for part in (raw[: index - start], raw[index - start :]))
    whole = start == 0 and start + len(raw) == len(line)
    if not (whole and cell_len(before) + cell_len(after) <= width):
        if start or cell_len(before) > 2 * width // 3:
            before = CUT + _fitting(before[::-1], width // 2 - 1)[::-1]
        room = width - cell_len(before)
        if cell_len(after) > room or start + len(raw) < len(line):
            after = _fitting(after, room - 1) + CUT
    return before + after, cell_len(before) if marks else None


def _plain(text: str) -> str:
    return visible(text.replace("\t", " "))


def _fitting(text: str, cells: int) -> str:
    """The beginning of the text that fits."""
    used = 0
    for number, character in enumerate(text):
        used += get_character_cell_size(character)
        if used > cells:
            return text[:number]
    return text


def _widest(texts: Iterable[str], limit: int) -> int:
    """Columns of the widest text within the limit; wider texts stick out of their column."""
    return max((width for text in texts if (width := cell_len(text)) <= limit), default=0)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))
