"""Ctrl-C, SIGTERM and SIGHUP: exit at once while nodes are read; during an apply, finish the running steps first."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Self

from gpuplan.output.text import visible
from gpuplan.types.outcome import Event, Listener, Status, StepEnded, StepStarted

INTERRUPTED, HUNG_UP, TERMINATED = 130, 129, 143
"""Exit codes: 128 + SIGINT, SIGHUP or SIGTERM, as shells define them."""
NOTHING_CHANGED = "Interrupted. Nothing was changed."
EXIT_CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED, signal.SIGHUP: HUNG_UP}
"""The exit code of each signal that ends the program."""
STANDARD_ERROR = 2
SHOW_CURSOR = "\x1b[?25h"


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """While nodes are only read: exit at once, even if a node hangs; nothing was changed."""

    def exit_now(number: int, _: object) -> None:
        _write(NOTHING_CHANGED)
        os._exit(EXIT_CODES[signal.Signals(number)])

    with _on_interrupt(exit_now):
        yield


class Interrupt(KeyboardInterrupt):
    """Raised in the main thread by a signal, with its exit code."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__()


class InterruptWatch:
    """Follows an apply and handles signals during it: the first one drains, the second one exits.

    Use it as a context in the main thread.
    """

    def __init__(self, listen: Listener) -> None:
        self.code = 0
        """The exit code of an interrupted apply; 0 if it was not interrupted."""
        self._listen = listen
        self._done = 0
        self._running: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()
        self._handling = _on_interrupt(self._handle)

    def __enter__(self) -> Self:
        self._handling.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handling.__exit__(kind, error, trace)
        if isinstance(error, Interrupt) and (self._done or self._running):
            self._exit_now()  # the signal arrived after the apply had stopped listening

    def listen(self, event: Event) -> None:
        """Note an event, from any thread, and pass it on to the progress display."""
        with self._lock:
            match event:
                case StepStarted():
                    self._running[event.node, event.step] = event.title
                case StepEnded(outcome=outcome) if outcome.status is not Status.SKIPPED:
                    self._running.pop((event.node, outcome.step), None)
                    self._done += outcome.status is Status.DONE
        self._listen(event)

    def summary(self) -> str:
        """What was done and which steps were cut off."""
        rows = [f"Exited without waiting. Steps done: {self._done}. Steps cut off:"]
        running = tuple(self._running.items())  # a copy, since other threads end steps meanwhile
        rows += [f"  {node}: {title}" for (node, _), title in running] or ["  none"]
        rows.append("Run gpuplan plan to see the state of the nodes.")
        return "\n".join(visible(row) for row in rows)

    def _handle(self, number: int, _: object) -> None:
        if self.code and number == signal.SIGHUP:
            return  # a closing terminal may send it more than once
        if self.code:
            self._exit_now()
        self.code = EXIT_CODES[signal.Signals(number)]
        again = "Press Ctrl-C again" if number == signal.SIGINT else "Send the signal again"
        _write(f"Interrupted: finishing running steps and started container replacements. {again} to exit at once.")
        raise Interrupt(self.code)

    def _exit_now(self) -> None:
        _write(self.summary())
        os._exit(self.code)


@contextmanager
def _on_interrupt(handle: Callable[[int, object], None]) -> Iterator[None]:
    """Only the main thread receives signals; a SIGHUP that nohup ignores stays ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with ExitStack() as restore:
        for number in EXIT_CODES:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                restore.callback(signal.signal, number, signal.signal(number, handle))
        yield


def _write(text: str) -> None:
    """Write without buffers and locks, since one of them may be held when the signal arrives."""
    cursor = SHOW_CURSOR if os.isatty(STANDARD_ERROR) else ""
    with suppress(OSError):  # a closed terminal must not end the apply
        os.write(STANDARD_ERROR, f"{cursor}\n{text}\n".encode())
