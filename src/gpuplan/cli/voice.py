"""The voice of a verb: results to standard output, diagnostics to standard error, or one JSON document."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpuplan.cli.streams import writing
from gpuplan.secrets.quoting import source_line, without_secrets
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.event import Event, Listener, silent
from gpuplan.types.value import Json, JsonObject

if TYPE_CHECKING:
    from gpuplan.output.page import Page


FEWEST = 10
"""Problems that are shown in full at any moment, however many there were before: the last ones matter most."""


class Voice:
    """Everything that one run says. A diagnostic is told once, however often it is met."""

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self.seen_live = False
        """Whoever reads the result has seen the steps go by."""
        self._told: dict[Diagnostic, None] = {}
        self._shown = 0

    def show(self, page: Page) -> None:
        """A result for people; nothing where a script reads."""
        if not self.as_json:
            from gpuplan.output.terminal import draw, screen

            with writing(sys.stdout):
                draw(page, screen(sys.stdout))

    def tell(self, diagnostics: Sequence[Diagnostic]) -> None:
        """What went wrong: at once for people, with the answer for scripts."""
        news = [each for each in map(without_secrets, diagnostics) if each not in self._told]
        self._told.update(dict.fromkeys(news))
        if news and not self.as_json:
            from gpuplan.output.diagnostics import MOST, together
            from gpuplan.output.diagnostics import diagnostics as page
            from gpuplan.output.terminal import draw, screen

            most = max(MOST - self._shown, FEWEST)
            self._shown += min(most, len(together(news)))
            with writing(sys.stderr):
                draw(page(news, source_line, most), screen(sys.stderr))

    def answer(self, result: JsonObject, code: int) -> None:
        """The one document that a script reads."""
        if self.as_json:
            from gpuplan.output.json_parts import diagnostic

            document = {**result, "exit_code": int(code), "diagnostics": [diagnostic(each) for each in self._told]}
            print_json(document)

    @contextmanager
    def progress(self, lines: bool = True) -> Iterator[Listener]:
        """A listener that shows what goes on: live on a terminal, else as lines where those are wanted."""
        from gpuplan.output.terminal import screen

        console = screen(sys.stderr)
        if self.as_json or not (lines or console.is_terminal):
            yield silent
            return
        from gpuplan.output.progress import LiveProgress, PlainProgress

        if not console.is_terminal or console.is_dumb_terminal:
            yield _never_raises(PlainProgress(console))
            return
        self.seen_live = sys.stdout.isatty()
        with LiveProgress(console) as live:
            yield _never_raises(live)


def print_json(value: Json) -> None:
    """One JSON document on standard output."""
    with writing(sys.stdout):
        print(as_json_text(value))


def as_json_text(value: Json) -> str:
    """A JSON document as text, indented for people who look at it after all."""
    return json.dumps(value, indent=2, default=_plain)


def _never_raises(listener: Callable[[Event], None]) -> Listener:
    """A terminal that went away must not fail the step that is being told of."""

    def listen(event: Event) -> None:
        try:
            listener(event)
        except (OSError, ValueError):
            return

    return listen


def _plain(value: object) -> object:
    """Mappings and sequences of ours that json does not know by itself."""
    if hasattr(value, "items"):
        return dict(value.items())
    if isinstance(value, Sequence | set | frozenset):
        return list(value)
    raise TypeError(f"not JSON: {type(value).__name__}")
