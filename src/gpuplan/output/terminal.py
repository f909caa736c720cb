"""The screen: where views are drawn, with colour only where somebody can see it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import islice
from typing import IO

from rich.console import Console, Group

from gpuplan.output.page import Page

PIPE_WIDTH = 100
"""Columns of text that goes to a file or a pipe, where COLUMNS does not say otherwise."""
BATCH = 200
"""Blocks that are drawn in one go."""


def screen(stream: IO[str], environ: Mapping[str, str] = os.environ) -> Console:
    """A console for the stream: as wide as the terminal, plain for pipes, NO_COLOR and TERM=dumb."""
    seen = stream.isatty()
    plain = not seen or bool(environ.get("NO_COLOR")) or environ.get("TERM") in ("dumb", "unknown")
    return Console(
        file=stream,
        width=None if seen or environ.get("COLUMNS", "").isdigit() else PIPE_WIDTH,
        color_system=None if plain else "auto",
        force_terminal=seen,
        legacy_windows=False,
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=False,
        _environ=environ,
    )


def draw(page: Page, console: Console) -> None:
    """Put a page on the screen."""
    blocks = iter(page)
    while batch := tuple(islice(blocks, BATCH)):
        console.print(Group(*batch), crop=False, overflow="ignore", no_wrap=True)
