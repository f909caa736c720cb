"""The loop on the node: it ends when its input ends, whatever hangs in it."""

import json
import os
import subprocess
import sys
import time

from gpuplan.reach.agent.frames import Frames

HANGING = """
import threading
from gpuplan.reach.agent import main, world
world.World.engine = lambda *_: threading.Event().wait()
world.World.nvml = lambda _: print("a library that prints")
main.main()
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
        program = "from gpuplan.reach.agent.main import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", program], input=given, capture_output=True, timeout=30, check=False
        )
        assert len(done.stdout.splitlines()) == 1
        assert done.stderr == b""


def test_frames_end_after_a_silence() -> None:
    reading, writing = os.pipe()
    frames = Frames(reading)
    os.write(writing, b"one\ntwo\nbody")
    assert frames.line(5) == b"one\n"
    assert frames.line(0.01) == b"two\n"
    assert frames.exactly(4) == b"body"
    assert frames.line(0.01) == b""
    os.close(writing)
    assert frames.line(None) == b""
    assert frames.exactly(1) is None
    os.close(reading)
