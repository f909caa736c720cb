"""Ctrl-C and its like: while nodes are asked it leaves at once, while they are worked on each first ends its step."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Self

from gpuplan.cli import HUNG_UP, INTERRUPTED, TERMINATED
from gpuplan.output.escape import visible
from gpuplan.types.event import Event, Listener, StepEnded, StepStarted
from gpuplan.types.outcome import Status

NOTHING_CHANGED = "Interrupted. Nothing was changed."
CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED, signal.SIGHUP: HUNG_UP}
"""What asks the program to end, and the exit code that says so."""
STANDARD_ERROR = 2
SHOW_CURSOR = "\x1b[?25h"


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """While nodes are only asked: nothing is at stake, and a node that hangs must not hold anybody back."""

    def leave(number: int, _: object) -> None:
        _write(NOTHING_CHANGED)
        os._exit(CODES[signal.Signals(number)])

    with _on_interrupt(leave):
        yield


class Interrupt(KeyboardInterrupt):
    """What a signal raises in the main thread, with the exit code that says which it was."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__()


class Watch:
    """Listens to an apply, and for Ctrl-C, SIGTERM and SIGHUP while it runs; use it as a context in the main thread."""

    def __init__(self, listen: Listener) -> None:
        self.code = 0
        """The exit code of an apply that was interrupted; 0 where it was not."""
        self._listen = listen
        self._done = 0
        self._under_way: dict[tuple[str, str], str] = {}
        self._turn = threading.Lock()
        self._handling = _on_interrupt(self._handle)

    def __enter__(self) -> Self:
        self._handling.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handling.__exit__(kind, error, trace)
        if isinstance(error, Interrupt) and (self._done or self._under_way):
            self._leave()  # it came when the flow no longer listened

    def listen(self, event: Event) -> None:
        """One event, from any thread; passed on to whoever shows progress."""
        with self._turn:
            match event:
                case StepStarted():
                    self._under_way[event.node, event.step] = event.title
                case StepEnded(outcome=outcome) if outcome.status is not Status.SKIPPED:
                    self._under_way.pop((event.node, outcome.step), None)
                    self._done += outcome.status is Status.DONE
        self._listen(event)

    def story(self) -> str:
        """What was done and what was left in the middle."""
        rows = [f"Left at once. Steps done: {self._done}. Left in the middle:"]
        under_way = tuple(self._under_way.items())  # in one go, since steps end meanwhile
        rows += [f"  {node}: {title}" for (node, _), title in under_way] or ["  nothing"]
        rows.append("Run gpuplan plan to see how far it came.")
        return "\n".join(visible(row) for row in rows)

    def _handle(self, number: int, _: object) -> None:
        if self.code and number == signal.SIGHUP:
            return  # a terminal that closes may say so more than once
        if self.code:
            self._leave()
        self.code = CODES[signal.Signals(number)]
        once_more = "Ctrl-C once more" if number == signal.SIGINT else "A second signal"
        kept = "each node finishes the step it is in, and a replacement that has stopped something"
        _write(f"Interrupted: {kept}. {once_more} leaves at once.")
        raise Interrupt(self.code)

    def _leave(self) -> None:
        _write(self.story())
        os._exit(self.code)


@contextmanager
def _on_interrupt(handle: Callable[[int, object], None]) -> Iterator[None]:
    """Only the main thread is ever interrupted; what nohup had ignored stays ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with ExitStack() as former:
        for number in CODES:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                former.callback(signal.signal, number, signal.signal(number, handle))
        yield


def _write(text: str) -> None:
    """Past all buffers and locks, since the signal may have come while one of them was held."""
    cursor = SHOW_CURSOR if os.isatty(STANDARD_ERROR) else ""
    with suppress(OSError):  # a terminal that went away must not end what is under way
        os.write(STANDARD_ERROR, f"{cursor}\n{text}\n".encode())
