"""Progress as lines, and as a picture that moves."""

from __future__ import annotations

import threading
from io import StringIO

from rich.console import Console

from gpuplan.output.progress import LiveProgress, PlainProgress
from gpuplan.types.outcome import Amount, Asked, Asking, Status, StepEnded, StepOutcome, StepProgress, StepStarted

STARTED = StepStarted("gpu-a1", "s", "create slice cls-a", 1, 2)
DONE = StepEnded("gpu-a1", StepOutcome("s", "create slice cls-a", Status.DONE, 1.31))
SKIPPED = StepEnded("gpu-a1", StepOutcome("t", "load model x", Status.SKIPPED))


def console(stream: StringIO, terminal: bool = False) -> Console:
    return Console(file=stream, width=60, color_system=None, force_terminal=terminal, legacy_windows=False)


def test_steps_are_lines_and_asking_is_silent() -> None:
    out = StringIO()
    progress = PlainProgress(console(out), clock=lambda: 0.0)
    for event in (Asking("gpu-a1"), Asked("gpu-a1", 0.2), STARTED, DONE, SKIPPED):
        progress(event)
    assert out.getvalue() == "gpu-a1: 1/2 create slice cls-a\ngpu-a1: done: create slice cls-a (1.3 s)\n"


def test_words_from_inside_a_step_are_said_now_and_then() -> None:
    out = StringIO()
    now = iter([0.0, 3.0, 11.0, 11.0, 12.0])
    progress = PlainProgress(console(out), clock=lambda: next(now))
    progress(STARTED)
    for text in ("pulling 1 %", "pulling 43 %", "pulling 44 %"):
        progress(StepProgress("gpu-a1", "s", text))
    assert out.getvalue().splitlines()[1:] == ["gpu-a1: … pulling 43 %"]


def amount(done: int, total: int = 300 * 2**20) -> StepProgress:
    return StepProgress("gpu-a1", "s", "sending m", Amount(done * 2**20, total))


def test_an_amount_is_a_line_for_each_tenth_and_not_more_often_than_each_second() -> None:
    out = StringIO()
    now = iter([0.0, 2.0, 3.0, 3.2, 3.5, 3.6])
    progress = PlainProgress(console(out), clock=lambda: next(now))
    progress(STARTED)
    for done in (0, 31, 59, 90, 300):
        progress(amount(done))
    assert out.getvalue().splitlines()[1:] == [
        "gpu-a1: … sending m: 10 %, 31 of 300 MiB",
        "gpu-a1: … sending m: 100 %, 300 of 300 MiB",
    ]


def test_an_amount_is_a_bar_in_the_picture() -> None:
    with LiveProgress(console(StringIO(), terminal=True)) as progress:
        progress._console.width = 120
        progress(STARTED)
        for event, told in (
            (amount(126), "████████░░░░░░░░░░░░ 42 %, 126 of 300 MiB"),
            (amount(0, 5), "░░░░░░░░░░░░░░░░░░░░ 0 %, 0 of 5 bytes"),
            (amount(0, 0), "████████████████████ 100 %, 0 of 0 bytes"),
        ):
            progress(event)
            assert told in str(progress._picture().renderables[0])


def test_the_live_picture_names_each_node_at_work() -> None:
    out = StringIO()
    with LiveProgress(console(out, terminal=True)) as progress:
        progress(Asking("gpu-h1"))
        progress(STARTED)
        progress(StepProgress("gpu-a1", "s", "pulling\x1b 43 %"))
        picture = "\n".join(str(line) for line in progress._picture().renderables)
        progress(DONE)
        progress(Asked("gpu-h1", 0.1))
        after = progress._picture().renderables
    assert "gpu-h1: reading" in picture
    assert r"gpu-a1: 1/2 create slice cls-a · pulling\x1b 43 %" in picture
    assert after == []
    assert "gpu-a1: ✓ create slice cls-a (1.3 s)" in out.getvalue()


def test_events_from_many_threads_do_not_lock_up() -> None:
    with LiveProgress(console(StringIO(), terminal=True)) as progress:
        threads = [threading.Thread(target=lambda: [progress(event) for event in (STARTED, DONE) * 50]) for _ in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=20)
        assert not any(thread.is_alive() for thread in threads)


def test_a_fast_step_is_one_line_and_a_failed_one_always_two() -> None:
    out = StringIO()
    progress = PlainProgress(console(out), clock=lambda: 0.0)
    progress(StepEnded("gpu-a1", StepOutcome("s", "create slice", Status.DONE, 0.2)))
    assert out.getvalue() == ""
    progress(StepEnded("gpu-a1", StepOutcome("s", "create slice", Status.FAILED, 0.2)))
    assert out.getvalue() == "gpu-a1: failed: create slice (0.2 s)\n"
