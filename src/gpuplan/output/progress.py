"""Progress of reading and applying: a live line per running step on a terminal, otherwise plain lines."""

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

from gpuplan.output.outcomes import step_line
from gpuplan.output.page import draw, paragraph
from gpuplan.output.text import bar, describe_amount, duration, percent, visible
from gpuplan.types.outcome import Amount, Asked, Asking, Event, Status, StepEnded, StepProgress, StepStarted

MIN_INTERVAL_SECONDS = 10.0
"""Minimum time between two plain lines of progress within a step."""
SLOW_SECONDS = 1.0
"""A faster step gets no line for its end; the start of the next step shows it."""


class PlainProgress:
    """Steps as lines: “gpu-a1: 3/7 create slice cls-a”. Reading nodes prints nothing."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._last_line_at: dict[str, float] = {}
        self._titles: dict[str, str] = {}
        self._last_step: dict[str, str] = {}
        self._tenths: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        """Handle an event, from any thread."""
        with self._lock:
            if text := self._line(event):
                draw([paragraph(text)], self._console)

    def _line(self, event: Event) -> str:
        match event:
            case StepStarted():
                self._last_line_at[event.node] = self._clock()
                self._titles[event.step] = event.title
                self._last_step[event.node] = event.step
                return visible(f"{event.node}: {event.number}/{event.total} {event.title}")
            case StepProgress(amount=Amount() as amount):
                return self._tenth(event, amount)
            case StepProgress() if self._clock() - self._last_line_at.get(event.node, 0.0) >= MIN_INTERVAL_SECONDS:
                self._last_line_at[event.node] = self._clock()
                return visible(f"{event.node}: … {self._title_if_needed(event)}{event.text}")
            case StepEnded(outcome=outcome) if outcome.status is Status.FAILED:
                return visible(f"{event.node}: failed: {outcome.title} ({duration(outcome.seconds)})")
            case StepEnded(outcome=outcome) if outcome.status is Status.DONE and outcome.seconds >= SLOW_SECONDS:
                return visible(f"{event.node}: done: {outcome.title} ({duration(outcome.seconds)})")
            case _:
                return ""

    def _tenth(self, event: StepProgress, amount: Amount) -> str:
        """A line for each further tenth, unless one was just printed."""
        tenth, now = percent(amount) // 10, self._clock()
        before = self._tenths.get((event.node, event.step), 0)
        if tenth <= before or (tenth < 10 and now - self._last_line_at.get(event.node, 0.0) < SLOW_SECONDS):
            return ""
        self._tenths[event.node, event.step], self._last_line_at[event.node] = tenth, now
        return visible(f"{event.node}: … {self._title_if_needed(event)}{event.text}: {describe_amount(amount)}")

    def _title_if_needed(self, event: StepProgress) -> str:
        """The step's title, if the node's last line was about another step that runs at the same time."""
        last, self._last_step[event.node] = self._last_step.get(event.node), event.step
        return "" if last == event.step else f"{self._titles.get(event.step, event.step)}: "


class LiveProgress:
    """One live line per running step, with finished steps above them; use it as a context."""

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
        """Handle an event, from any thread."""
        self._note(event)
        if isinstance(event, StepEnded) and event.outcome.status is not Status.SKIPPED:
            # Not under our own lock: printing takes the console's lock, whose holder may be calling `_picture`.
            draw([paragraph(step_line(event.outcome), f"{visible(event.node)}: ")], self._console)

    def _note(self, event: Event) -> None:
        with self._lock:
            match event:
                case Asking():
                    self._lines[event.node, ""] = Text(visible(f"{event.node}: reading"))
                case StepStarted():
                    head = Text(visible(f"{event.node}: {event.number}/{event.total} {event.title}"))
                    self._heads[event.node, event.step] = self._lines[event.node, event.step] = head
                case StepProgress(amount=amount):
                    text = f"{bar(amount)} {describe_amount(amount)}" if amount else visible(event.text)
                    head = self._heads.get((event.node, event.step), Text(visible(event.node)))
                    self._lines[event.node, event.step] = Text.assemble(head, (f" · {text}", "dim"))
                case Asked():
                    self._lines.pop((event.node, ""), None)
                case StepEnded():
                    self._lines.pop((event.node, event.outcome.step), None)
                    self._heads.pop((event.node, event.outcome.step), None)

    def _picture(self) -> Group:
        with self._lock:
            frame = self._spinner.render(time.monotonic())
            spinner = frame if isinstance(frame, Text) else Text("·")
            lines = [Text.assemble(spinner, " ", line) for line in self._lines.values()]
        for line in lines:
            line.truncate(max(20, self._console.width - 1), overflow="ellipsis")
        return Group(*lines)
