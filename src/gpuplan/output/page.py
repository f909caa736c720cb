"""The page that all terminal views write on: paragraphs with a lead, and field tables that fit the width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from gpuplan.output.excerpt import Excerpt

NARROWEST = 20
"""Columns that a paragraph's body gets even where the terminal has fewer."""


@dataclass(frozen=True)
class Paragraph:
    """Text that wraps: `lead` stands before its first row, `hang` before each further one."""

    body: Text
    lead: Text
    hang: Text
    wraps: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Rows no wider than the page, long words folded."""
        width = max(NARROWEST, options.max_width - self.lead.cell_len)
        if not self.wraps or self.body.cell_len <= width:  # nearly always, and wrapping costs more than all the rest
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
    """One row of a field table; `before` is None where there is only one value to show."""

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
        """Each field in one row where the page is wide enough."""
        path_width = _widest((row.path for row in self.table), self.widest_path)
        before_width = _widest((row.before for row in self.table if row.before is not None), self.widest_before)
        for row in self.table:
            for part in self._rows(row, path_width, before_width, options.max_width):
                yield from part.__rich_console__(console, options)

    def _rows(self, row: FieldRow, path_width: int, before_width: int, width: int) -> Iterable[Paragraph]:
        label = f"{' ' * self.indent}{_padded(row.path, path_width)}  "
        column = self.indent + path_width + 2
        if max(cell_len(label), column) + NARROWEST > width:
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


Block: TypeAlias = Paragraph | Fields | Excerpt
Page: TypeAlias = Iterable[Block]


def paragraph(body: Text | str, lead: Text | str = "", hang: Text | str | None = None, wraps: bool = True) -> Paragraph:
    """A paragraph; without `hang` its further rows are indented as far as its first."""
    first = Text(lead) if isinstance(lead, str) else lead
    rest = " " * first.cell_len if hang is None else hang
    return Paragraph(
        Text(body) if isinstance(body, str) else body, first, Text(rest) if isinstance(rest, str) else rest, wraps
    )


BLANK = paragraph("")


def _widest(texts: Iterable[str], limit: int) -> int:
    """Columns of the widest text that is not beyond the limit; what is wider sticks out of its column."""
    return max((width for text in texts if (width := cell_len(text)) <= limit), default=0)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))
