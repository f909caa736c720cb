"""Ctrl-C while nodes are worked on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from gpuplan.cli.interrupt import Watch
from gpuplan.model.event import Event, StepEnded, StepStarted
from gpuplan.model.outcome import Status, StepOutcome

TWICE = """
import os, signal
from gpuplan.cli.interrupt import Watch
from gpuplan.model.event import StepEnded, StepStarted
from gpuplan.model.outcome import Status, StepOutcome
with Watch(lambda event: None) as watch:
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


def test_the_first_is_noticed_and_the_former_handler_comes_back() -> None:
    former = signal.getsignal(signal.SIGINT)
    with Watch(lambda event: None) as watch, pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    assert watch.interrupted
    assert signal.getsignal(signal.SIGINT) is former


def test_events_are_passed_on() -> None:
    heard: list[Event] = []
    started = StepStarted("gpu-a1", "s", "create slice", 1, 2)
    ended = StepEnded("gpu-a1", StepOutcome("s", "create slice", Status.FAILED))
    watch = Watch(heard.append)
    watch.listen(started)
    watch.listen(ended)
    assert heard == [started, ended]
    assert "Steps done: 0" in watch.story()
    assert "nothing" in watch.story()


def test_the_second_leaves_at_once_and_says_what_was_done() -> None:
    ran = subprocess.run([sys.executable, "-c", TWICE], check=False, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 130
    assert "each node finishes the step it is in" in ran.stderr
    assert "Steps done: 1." in ran.stderr
    assert r"gpu-a1: load model x\x1b" in ran.stderr
    assert "Traceback" not in ran.stderr


ASKING = """
import os, signal, threading
from gpuplan.cli.interrupt import leaving_at_once
threading.Thread(target=threading.Event().wait).start()
with leaving_at_once():
    os.kill(os.getpid(), signal.SIGINT)
    signal.pause()
"""


def test_while_nodes_are_asked_one_leaves_at_once_even_where_a_node_hangs() -> None:
    ran = subprocess.run([sys.executable, "-c", ASKING], check=False, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (130, "\nInterrupted. Nothing was changed.\n")
