"""Ctrl-C while nodes are worked on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from gpuplan.cli.interrupt import InterruptWatch
from gpuplan.types.outcome import Event, Status, StepEnded, StepOutcome, StepStarted

TWICE = """
import os, signal
from gpuplan.cli.interrupt import InterruptWatch
from gpuplan.types.outcome import StepEnded, StepStarted
from gpuplan.types.outcome import Status, StepOutcome
with InterruptWatch(lambda event: None) as watch:
    watch.listen(StepStarted("gpu-a1", "s", "create slice", 1, 2))
    watch.listen(StepEnded("gpu-a1", StepOutcome("s", "create slice", Status.DONE)))
    watch.listen(StepStarted("gpu-a1", "t", "load model x\\x1b", 2, 2))
    try:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    except KeyboardInterrupt:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_is_noticed_and_the_former_handler_comes_back(number: signal.Signals) -> None:
    former = signal.getsignal(number)
    with InterruptWatch(lambda event: None) as watch, pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
    assert watch.code == 128 + number
    assert signal.getsignal(number) is former


def test_a_terminal_that_closes_is_noticed_once_and_nohup_is_respected() -> None:
    with InterruptWatch(lambda event: None) as watch:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
    assert watch.code == 129
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with InterruptWatch(lambda event: None) as watch:
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, former)
    assert watch.code == 0


def test_events_are_passed_on() -> None:
    heard: list[Event] = []
    started = StepStarted("gpu-a1", "s", "create slice", 1, 2)
    ended = StepEnded("gpu-a1", StepOutcome("s", "create slice", Status.FAILED))
    watch = InterruptWatch(heard.append)
    watch.listen(started)
    watch.listen(ended)
    assert heard == [started, ended]
    assert "Steps done: 0" in watch.summary()
    assert "none" in watch.summary()


def test_a_step_that_ends_while_the_story_is_told_does_not_spoil_it() -> None:
    watch = InterruptWatch(lambda event: None)

    class Title(str):
        """Another thread comes to run while this one is written."""

        __slots__ = ()

        def __format__(self, form: str) -> str:
            watch.listen(StepEnded("n", StepOutcome(str(self), str(self), Status.DONE)))
            return super().__format__(form)

    for name in ("a", "b", "c"):
        watch.listen(StepStarted("n", name, Title(name), 1, 3))
    assert watch.summary().splitlines()[1:4] == ["  n: a", "  n: b", "  n: c"]


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_the_second_leaves_at_once_and_says_what_was_done(name: str, code: int) -> None:
    program = TWICE.replace("SIGINT", name)
    ran = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    assert ran.returncode == code
    assert "finishing running steps" in ran.stderr
    assert "Steps done: 1." in ran.stderr
    assert r"gpu-a1: load model x\x1b" in ran.stderr
    assert "Traceback" not in ran.stderr


ASKING = """
import os, signal, threading
from gpuplan.cli.interrupt import exit_on_interrupt
threading.Thread(target=threading.Event().wait).start()
with exit_on_interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    signal.pause()
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_while_nodes_are_asked_one_leaves_at_once_even_where_a_node_hangs(name: str, code: int) -> None:
    program = ASKING.replace("SIGINT", name)
    ran = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (code, "\nInterrupted. Nothing was changed.\n")


LATE = """
import os, signal
from gpuplan.cli.interrupt import InterruptWatch
from gpuplan.types.outcome import StepStarted
with InterruptWatch(lambda event: None) as watch:
    watch.listen(StepStarted("gpu-a1", "s", "create slice", 1, 2))
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()
"""


def test_one_that_comes_when_the_flow_no_longer_listens_tells_the_truth() -> None:
    ran = subprocess.run([sys.executable, "-c", LATE], check=False, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 143
    assert "gpu-a1: create slice" in ran.stderr
    assert "Traceback" not in ran.stderr
