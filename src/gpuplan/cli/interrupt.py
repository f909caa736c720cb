"""Ctrl-C: while nodes are asked it leaves at once, while they are worked on each first finishes its step."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from gpuplan.cli import INTERRUPTED
from gpuplan.model.event import Event, Listener, StepEnded, StepStarted
from gpuplan.model.outcome import Status
from gpuplan.views.escape import visible

NOTHING_CHANGED = "Interrupted. Nothing was changed."
STANDARD_ERROR = 2
SHOW_CURSOR = "\x1b[?25h"


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """While nodes are only asked: nothing is at stake, and a node that hangs must not hold anybody back."""

    def leave(*_: object) -> None:
        _write(NOTHING_CHANGED)
        os._exit(INTERRUPTED)

    with _on_interrupt(leave):
        yield


class Watch:
    """Listens to an apply, and for Ctrl-C while it runs; use it as a context in the main thread."""

    def __init__(self, listen: Listener) -> None:
        self.interrupted = False
        self._listen = listen
        self._done = 0
        self._under_way: dict[str, str] = {}
        self._handling = _on_interrupt(self._handle)

    def __enter__(self) -> Self:
        self._handling.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handling.__exit__(kind, error, trace)

    def listen(self, event: Event) -> None:
        """One event, from any thread; passed on to whoever shows progress."""
        match event:
            case StepStarted():
                self._under_way[event.node] = event.title
            case StepEnded(outcome=outcome) if outcome.status is not Status.SKIPPED:
                self._under_way.pop(event.node, None)
                self._done += outcome.status is Status.DONE
        self._listen(event)

    def story(self) -> str:
        """What was done and what was left in the middle."""
        rows = [f"Left at once. Steps done: {self._done}. Left in the middle:"]
        rows += [f"  {node}: {title}" for node, title in self._under_way.items()] or ["  nothing"]
        rows.append("Run gpuplan plan to see how far it came.")
        return "\n".join(visible(row) for row in rows)

    def _handle(self, *_: object) -> None:
        if self.interrupted:
            _write(self.story())
            os._exit(INTERRUPTED)
        self.interrupted = True
        _write("Interrupted: each node finishes the step it is in. Ctrl-C once more leaves at once.")
        raise KeyboardInterrupt


@contextmanager
def _on_interrupt(handle: Callable[..., None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is ever interrupted
        return
    former = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


def _write(text: str) -> None:
    """Past all buffers and locks, since the signal may have come while one of them was held."""
    cursor = SHOW_CURSOR if os.isatty(STANDARD_ERROR) else ""
    os.write(STANDARD_ERROR, f"{cursor}\n{text}\n".encode())
