"""The loop on the node: it ends when its input ends, whatever hangs in it."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuplan.agent.main import Frames
from gpuplan.agent.storage.record import lock_holder

OWNER = {"run": "r1"}
HANGING = """
import threading
from gpuplan.agent import main, world
world.World.engine = lambda *_: threading.Event().wait()
world.World.nvml = lambda _: print("a library that prints")
main.main(60)
"""


def test_a_probe_that_hangs_neither_keeps_the_answer_nor_the_process() -> None:
    question = {"op": "ask", "probes": ["docker", "gpu"], "plan": "", "deadlines": {"docker": 0.1, "gpu": 5}}
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", HANGING],
        input=json.dumps(question).encode() + b"\n\n",
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert time.monotonic() - began < 10
    assert done.returncode == 0
    hello, answer = map(json.loads, done.stdout.splitlines())
    assert hello["hello"] == "gpuplan-agent"
    assert answer["ok"]["probes"]["docker"]["error"]["code"] == "timeout"
    assert done.stderr == b"a library that prints\n"


def test_an_input_that_ends_in_the_middle_is_an_end() -> None:
    for given in (b"", b'{"op": "lock', b'{"op": "blob.put", "body": 10}\nhalf'):
        program = "from gpuplan.agent.main import main; main(60)"
        done = subprocess.run(
            [sys.executable, "-c", program], input=given, capture_output=True, timeout=30, check=False
        )
        assert len(done.stdout.splitlines()) == 1
        assert done.stderr == b""


@pytest.mark.parametrize("request_line", [b"[]", b"5", b'{"body": "4"}', b'{"body": -1}', b'{"body": 1e99}', b"["])
def test_a_request_that_cannot_be_understood_ends_it(request_line: bytes) -> None:
    program = "from gpuplan.agent.main import main; main(60)"
    done = subprocess.run(
        [sys.executable, "-c", program], input=request_line + b"\n{}\n", capture_output=True, timeout=30, check=False
    )
    assert len(done.stdout.splitlines()) == 1
    assert done.returncode == 1


@dataclass
class Served:
    """An agent in a process of its own that has the lock and bears `silence` seconds without a word."""

    root: Path
    silence: float = 1.0

    def __enter__(self) -> "Served":
        program = f"from gpuplan.agent.main import main; main({self.silence})"
        self.process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "GPUPLAN_ROOT": str(self.root)},
        )
        self.process.stdout.readline()
        self.say(json.dumps({"op": "lock.take", "owner": OWNER}).encode() + b"\n")
        assert json.loads(self.process.stdout.readline()) == {"ok": {"taken": True}}
        return self

    def say(self, words: bytes) -> None:
        self.process.stdin.write(words)
        self.process.stdin.flush()

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.parametrize(
    "last_words",
    [
        pytest.param(b"", id="between-requests"),
        pytest.param(b'{"op": "lo', id="in-a-line"),
        pytest.param(b'{"op": "blob.put", "body": 4096}\nhalf', id="in-a-body"),
    ],
)
def test_one_that_vanishes_with_the_lock_loses_it(tmp_path: Path, last_words: bytes) -> None:
    with Served(tmp_path) as served:
        served.say(last_words)
        assert lock_holder(str(tmp_path)) == OWNER
        served.process.wait(20)  # its input stays open all the while
        assert lock_holder(str(tmp_path)) is None


def test_one_that_reads_no_answer_loses_the_lock(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        served.say(json.dumps({"op": "x" * 300_000}).encode() + b"\n")  # the answer repeats it: more than a pipe holds
        served.process.wait(20)
        assert lock_holder(str(tmp_path)) is None


def test_signs_of_life_keep_the_lock(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            served.say(b"\n")
            with pytest.raises(subprocess.TimeoutExpired):
                served.process.wait(0.1)
        assert lock_holder(str(tmp_path)) == OWNER


def test_frames_end_after_a_silence() -> None:
    reading, writing = os.pipe()
    frames = Frames(reading, writing)
    os.write(writing, b"one\ntwo\nbody")
    assert frames.line(5) == b"one\n"
    assert frames.line(0.01) == b"two\n"
    assert frames.exactly(4, 0.01) == b"body"
    assert frames.line(0.01) == b""
    assert frames.exactly(1, 0.01) is None
    with pytest.raises(TimeoutError):
        frames.write(bytes(1 << 20), 0.01)
    os.close(writing)
    assert len(frames.exactly(4096, 5)) == 4096
    os.close(reading)


def test_a_line_without_an_end_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuplan.agent.main.LONGEST", 1000)
    reading, writing = os.pipe()
    os.write(writing, b"x" * 2000)
    with pytest.raises(ValueError, match="too long"):
        Frames(reading, writing).line(5)
    os.close(writing)
    os.close(reading)
