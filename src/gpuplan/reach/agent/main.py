"""The loop on the node: one line of JSON in, one line of JSON out, until the connection goes."""

from __future__ import annotations

import json
import os
import platform

from .agent import Agent
from .files import write_all
from .frames import Frames
from .world import World

SILENCE = 180.0
"""Seconds without a sign of life (an empty line is one) after which whoever holds the lock is taken to be cut off."""


def main() -> None:
    """Serve requests on standard input until it ends. Never returns.

    The process ends by os._exit, since a probe that hangs in the driver must not keep it; that frees the lock as well.
    """
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints must not get between two answers
    code = 0
    agent = Agent(World())
    try:
        _serve(agent, Frames(0), answers)
    except (OSError, ValueError):
        code = 1
    finally:
        try:
            agent.forsaken()
        finally:
            os._exit(code)


def _serve(agent: Agent, frames: Frames, answers: int) -> None:
    _write(answers, {"hello": "gpuplan-agent", "python": platform.python_version(), "uid": os.geteuid()})
    while True:
        line = frames.line(SILENCE if agent.lock.held else None)
        if not line:
            return
        if line.isspace():
            continue
        request = json.loads(line)
        body = frames.exactly(request["body"]) if "body" in request else b""
        if body is None:
            return
        _write(answers, agent.handle(request, body))


def _write(answers: int, answer: object) -> None:
    write_all(answers, json.dumps(answer).encode() + b"\n")
