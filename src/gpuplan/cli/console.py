"""The console of a command: pages on standard output, diagnostics on standard error, or one JSON document.

Only this package prints. What happens if a stream cannot be written to is decided here as well.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from gpuplan.secrets.redact import redact_quoted_secrets, source_line
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.outcome import Event, Listener, silent
from gpuplan.types.value import Json, JsonObject

if TYPE_CHECKING:
    from gpuplan.output.page import Page

MIN_SHOWN = 10
"""Diagnostics of one report that are always shown in full, since the last ones matter most."""
STREAMS = {1: "standard output", 2: "standard error"}


class Unwritable(Exception):
    """A stream cannot be written to, for example because the disk is full; the message says which and why."""


def closed_streams() -> str:
    """“standard output is closed”, or an empty text if both output streams are open.

    With one closed nothing may run: the next file or socket would get its number, and our output.
    """
    missing = [name for stream, name in ((sys.stdout, STREAMS[1]), (sys.stderr, STREAMS[2])) if stream is None]
    return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} closed" if missing else ""


def replace_closed_stdin() -> None:
    """If standard input is closed, open /dev/null in its place, so that no other file gets its number."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123  stays open while the program runs


@contextmanager
def writing(stream: IO[str]) -> Iterator[None]:
    """Write to the stream, and flush it at the end.

    Raises:
        Unwritable: the stream cannot be written to.
        BrokenPipeError: the reader of the pipe has closed it.
    """
    try:
        yield
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(f"cannot write to {_name(stream)}: {error.strerror or error}") from error


def print_plain_error(message: str) -> None:
    """Print one line to standard error, or to standard output if that fails."""
    for stream in (sys.stderr, sys.stdout):
        with suppress(OSError, ValueError, AttributeError):
            stream.write(f"gpuplan: {message}.\n")
            stream.flush()
            return


def discard_output() -> None:
    """Send to /dev/null what Python would flush at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(null, stream.fileno())


def _name(stream: IO[str]) -> str:
    return STREAMS[2] if stream is sys.stderr else STREAMS[1]


class Console:
    """Prints everything that one run reports. A diagnostic is printed once, however often it is reported."""

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self.steps_shown = False
        """The operator has seen each step end on the terminal."""
        self._diagnostics: dict[Diagnostic, None] = {}
        self._shown = 0

    def show(self, page: Page) -> None:
        """Print a page to standard output; with --json nothing."""
        if not self.as_json:
            from gpuplan.output.page import draw, open_console

            with writing(sys.stdout):
                draw(page, open_console(sys.stdout))

    def report(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Print diagnostics to standard error; with --json they become part of the document."""
        new = [
            diagnostic for diagnostic in map(redact_quoted_secrets, diagnostics) if diagnostic not in self._diagnostics
        ]
        self._diagnostics.update(dict.fromkeys(new))
        if new and not self.as_json:
            from gpuplan.output.diagnostics import MAX_SHOWN, group_by_problem, render_diagnostics
            from gpuplan.output.page import draw, open_console

            limit = max(MAX_SHOWN - self._shown, MIN_SHOWN)
            self._shown += min(limit, len(group_by_problem(new)))
            with writing(sys.stderr):
                draw(render_diagnostics(new, source_line, limit), open_console(sys.stderr))

    def print_document(self, document: JsonObject, exit_code: int) -> None:
        """With --json, print the document with the exit code and all diagnostics."""
        if self.as_json:
            from gpuplan.output.json import diagnostic_json

            diagnostics = [diagnostic_json(diagnostic) for diagnostic in self._diagnostics]
            print_json({**document, "exit_code": int(exit_code), "diagnostics": diagnostics})

    @contextmanager
    def progress(self, lines: bool = True) -> Iterator[Listener]:
        """A listener that shows progress: live on a terminal, otherwise as `lines`; none with --json."""
        from gpuplan.output.page import open_console

        screen = open_console(sys.stderr)
        if self.as_json or not (lines or screen.is_terminal):
            yield silent
            return
        from gpuplan.output.progress import LiveProgress, PlainProgress

        if not screen.is_terminal or screen.is_dumb_terminal:
            yield _ignore_write_errors(PlainProgress(screen))
            return
        self.steps_shown = sys.stdout.isatty()
        with LiveProgress(screen) as live:
            yield _ignore_write_errors(live)


def print_json(value: Json) -> None:
    """Print a JSON document to standard output."""
    from gpuplan.output.json import json_text

    with writing(sys.stdout):
        print(json_text(value))


def _ignore_write_errors(listener: Callable[[Event], None]) -> Listener:
    """A closed terminal must not fail the step whose progress is shown."""

    def listen(event: Event) -> None:
        with suppress(OSError, ValueError):
            listener(event)

    return listen
