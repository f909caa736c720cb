"""Progress: a live line for each step under way on a terminal, plain lines elsewhere; both are listeners of events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from gpuplan.output.amount import bar, percent, words
from gpuplan.output.escape import visible
from gpuplan.output.outcomes import step_line
from gpuplan.output.page import paragraph
from gpuplan.output.terminal import draw
from gpuplan.output.words import duration
from gpuplan.types.event import Amount, Asked, Asking, Event, StepEnded, StepProgress, StepStarted
from gpuplan.types.outcome import Status

QUIET_SECONDS = 10.0
"""At least so long between two words from inside one step, where every word is a line of its own."""
SLOW_SECONDS = 1.0
"""The end of a faster step is not worth a line of its own; the next one's beginning says as much."""


class PlainProgress:
    """Steps as lines: “gpu-a1: 3/7 create slice cls-a”. Asking is silent; what fails there is told later."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._said: dict[str, float] = {}
        self._titles: dict[str, str] = {}
        self._last: dict[str, str] = {}
        self._tenths: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        """One event, from any thread."""
        with self._lock:
            if text := self._line(event):
                draw([paragraph(text)], self._console)

    def _line(self, event: Event) -> str:
        match event:
            case StepStarted():
                self._said[event.node] = self._clock()
                self._titles[event.step] = event.title
                self._last[event.node] = event.step
                return visible(f"{event.node}: {event.number}/{event.total} {event.title}")
            case StepProgress(amount=Amount() as amount):
                return self._tenth(event, amount)
            case StepProgress() if self._clock() - self._said.get(event.node, 0.0) >= QUIET_SECONDS:
                self._said[event.node] = self._clock()
                return visible(f"{event.node}: … {self._which(event)}{event.text}")
            case StepEnded(outcome=outcome) if outcome.status is Status.FAILED:
                return visible(f"{event.node}: failed: {outcome.title} ({duration(outcome.seconds)})")
            case StepEnded(outcome=outcome) if outcome.status is Status.DONE and outcome.seconds >= SLOW_SECONDS:
                return visible(f"{event.node}: done: {outcome.title} ({duration(outcome.seconds)})")
            case _:
                return ""

    def _tenth(self, event: StepProgress, amount: Amount) -> str:
        """A line for each further tenth, unless one has just been written."""
        tenth, now = percent(amount) // 10, self._clock()
        before = self._tenths.get((event.node, event.step), 0)
        if tenth <= before or (tenth < 10 and now - self._said.get(event.node, 0.0) < SLOW_SECONDS):
            return ""
        self._tenths[event.node, event.step], self._said[event.node] = tenth, now
        return visible(f"{event.node}: … {self._which(event)}{event.text}: {words(amount)}")

    def _which(self, event: StepProgress) -> str:
        """The step's title, where the node's last line was of another that runs beside it."""
        last, self._last[event.node] = self._last.get(event.node), event.step
        return "" if last == event.step else f"{self._titles.get(event.step, event.step)}: "


class LiveProgress:
    """One moving line for each step under way, finished steps above them; use it as a context."""

    def __init__(self, console: Console) -> None:
        self._lines: dict[tuple[str, str], Text] = {}
        self._heads: dict[tuple[str, str], Text] = {}
        self._lock = threading.Lock()
        self._console = console
        self._spinner = Spinner("dots")
        self._live = Live(get_renderable=self._picture, console=console, transient=True, refresh_per_second=10)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """One event, from any thread."""
        self._note(event)
        if isinstance(event, StepEnded) and event.outcome.status is not Status.SKIPPED:
            # Drawing takes the console's lock, whose holder may be asking for the picture: never under our own.
            draw([paragraph(step_line(event.outcome), f"{visible(event.node)}: ")], self._console)

    def _note(self, event: Event) -> None:
        with self._lock:
            match event:
                case Asking():
                    self._lines[event.node, ""] = Text(visible(f"{event.node}: asking"))
                case StepStarted():
                    head = Text(visible(f"{event.node}: {event.number}/{event.total} {event.title}"))
                    self._heads[event.node, event.step] = self._lines[event.node, event.step] = head
                case StepProgress(amount=amount):
                    told = f"{bar(amount)} {words(amount)}" if amount else visible(event.text)
                    head = self._heads.get((event.node, event.step), Text(visible(event.node)))
                    self._lines[event.node, event.step] = Text.assemble(head, (f" · {told}", "dim"))
                case Asked():
                    self._lines.pop((event.node, ""), None)
                case StepEnded():
                    self._lines.pop((event.node, event.outcome.step), None)
                    self._heads.pop((event.node, event.outcome.step), None)

    def _picture(self) -> Group:
        with self._lock:
            frame = self._spinner.render(time.monotonic())
            mark = frame if isinstance(frame, Text) else Text("·")
            lines = [Text.assemble(mark, " ", line) for line in self._lines.values()]
        for line in lines:
            line.truncate(max(20, self._console.width - 1), overflow="ellipsis")
        return Group(*lines)
