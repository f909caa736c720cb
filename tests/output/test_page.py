"""A line and the mark under it: they fit the screen, and the mark stands under what it means."""

from __future__ import annotations

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len, set_cell_size

from gpuplan.output.change_set import render_change_set
from gpuplan.output.page import Excerpt, cut_around, draw, open_console
from gpuplan.output.text import visible
from tests.output import examples
from tests.output.examples import change_set_of, drawn

LONG = "key: " + "x" * 150 + "HERE" + "y" * 150


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_long_line_is_cut_around_its_column(width: int) -> None:
    line, mark = drawn([Excerpt(LONG, 7, LONG.index("HERE") + 1, "red")], width).splitlines()
    assert max(len(line), len(mark)) <= width
    assert line[mark.index("^") :].startswith("HERE")
    assert line.startswith("│      7 │ …x")
    assert line.endswith("y…")


def test_a_column_near_the_beginning_keeps_the_beginning() -> None:
    line, mark = drawn([Excerpt(LONG, 7, 6, "red")], 80).splitlines()
    assert line.startswith("│      7 │ key: xxx")
    assert line[mark.index("^")] == "x"


@pytest.mark.parametrize(
    ("line", "column", "cell"),
    [
        ("a: b", 4, 3),
        ("\ta: b", 5, 4),
        ("日本: x", 5, 6),
        ("\x1bb: x", 2, 4),
        ("a: b", 5, 4),
        ("a: b", 6, None),
        ("a: b", 0, None),
        ("", 1, 0),
        ("pw: (sensitive)", 5, 4),
        ("pw: (sensitive)", 6, None),
    ],
)
def test_the_mark_stands_under_what_it_means(line: str, column: int, cell: int | None) -> None:
    assert cut_around(line, column, 60)[1] == cell


@given(st.text(alphabet="ab:日\t\x1b\u0301 ", max_size=120), st.integers(0, 130), st.integers(20, 60))
def test_it_always_fits_and_never_misleads(line: str, column: int, width: int) -> None:
    shown, cell = cut_around(line, column, width)
    assert cell_len(shown) <= width
    assert shown.isprintable()
    if cell is not None and column <= len(line) and not line[column - 1 :].startswith(("\t", "\u0301")):
        rest = shown[len(set_cell_size(shown, cell)) :].lstrip("\u0301")
        assert rest.startswith((visible(line[column - 1]), "…"))


def test_a_line_of_four_megabytes_is_cut_in_time() -> None:
    assert cut_around("é" * (4 << 20), 3 << 20, 80)[1] == 40


# Colour only where somebody can see it.


class Tty(StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: StringIO, **environ: str) -> str:
    draw(render_change_set(change_set_of(examples.NODE)), open_console(stream, environ))
    return stream.getvalue()


def test_a_terminal_gets_colour() -> None:
    assert "\x1b[" in shown(Tty(), TERM="xterm-256color", COLUMNS="100")


@pytest.mark.parametrize("environ", [{"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_that_wants_none_gets_none(environ: dict[str, str]) -> None:
    assert "\x1b" not in shown(Tty(), COLUMNS="100", **environ)


def test_a_pipe_gets_plain_text_of_a_set_width() -> None:
    text = shown(StringIO(), TERM="xterm-256color")
    assert "\x1b" not in text
    assert 80 < max(len(row) for row in text.splitlines()) <= 100


def test_columns_sets_the_width_of_a_pipe() -> None:
    assert max(len(row) for row in shown(StringIO(), COLUMNS="60").splitlines()) <= 60
