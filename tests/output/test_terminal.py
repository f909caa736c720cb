"""Colour only where somebody can see it."""

from __future__ import annotations

from io import StringIO

import pytest

from gpuplan.output.changes import change_set
from gpuplan.output.terminal import draw, screen
from tests.output import values
from tests.output.values import change_set_of


class Tty(StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: StringIO, **environ: str) -> str:
    draw(change_set(change_set_of(values.NODE)), screen(stream, environ))
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
