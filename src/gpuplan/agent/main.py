"""The loop on the node: one line of JSON in, one line of JSON out, until the connection goes."""

from __future__ import annotations

import json
import os
import platform
import select
from collections.abc import Mapping

from .agent import Agent
from .world import World

# Requests and answers on file descriptors: lines, and bytes that follow some; every wait has a time limit.

PIECE = 1 << 18
LONGEST = 1 << 28
"""Bytes of one line; the longest that is sent names every file of a model."""


class Frames:
    """What comes in and goes out. An end in the middle of something is an end."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = reading
        self._writing = writing
        self._held = bytearray()

    def line(self, silence: float) -> bytes:
        """The next line; empty at the end, or after `silence` seconds without a byte.

        Raises ValueError if the line is longer than LONGEST.
        """
        seen = 0
        while (end := self._held.find(b"\n", seen)) < 0:
            seen = len(self._held)
            if seen > LONGEST:
                raise ValueError("a request line is too long")
            if not self._read(silence):
                return b""
        return self._take(end + 1)

    def exactly(self, size: int, silence: float) -> bytes | None:
        """So many bytes; None at the end, or after `silence` seconds without one."""
        while len(self._held) < size:
            if not self._read(silence):
                return None
        return self._take(size)

    def write(self, content: bytes, silence: float) -> None:
        """Write all of it; raises TimeoutError after `silence` seconds without progress.

        In pieces that cannot block once the descriptor is ready (pipe(7), PIPE_BUF): it may share its open file with
        the one that is read, so its mode stays as it is.
        """
        left = memoryview(content)
        while left:
            if not select.select([], [self._writing], [], silence)[1]:
                raise TimeoutError("the answer is not being read")
            left = left[os.write(self._writing, left[: select.PIPE_BUF]) :]

    def _read(self, silence: float) -> bool:
        if not select.select([self._reading], [], [], silence)[0]:
            return False
        piece = os.read(self._reading, PIECE)
        self._held += piece
        return bool(piece)

    def _take(self, size: int) -> bytes:
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken


IDLE = 900.0
"""Seconds without a sign of life (an empty line is one) after which an agent that holds no lock ends as well."""
LARGEST_BODY = 1 << 26
"""Bytes that may follow one request; pieces of content are far smaller."""


def main(silence: float) -> None:
    """Serve requests on standard input until it ends. Never returns.

    An agent that holds the lock ends if it hears nothing for `silence` seconds: the connection may be dead. It exits by
    os._exit, since a probe that hangs in the driver must not keep it; that frees the lock as well.
    """
    answers = os.dup(1)
    os.dup2(2, 1)  # output of a library must not mix with the answers
    code = 1
    agent = Agent(World())
    try:
        _serve(agent, Frames(0, answers), silence)
        code = 0
    finally:
        try:
            agent.on_disconnect()
        finally:
            os._exit(code)


def _serve(agent: Agent, frames: Frames, silence: float) -> None:
    _write(frames, {"hello": "gpuplan-agent", "python": platform.python_version(), "uid": os.geteuid()}, IDLE)
    while line := frames.line(_limit(agent, silence)):
        if line.isspace():
            continue
        request = json.loads(line)
        body = frames.exactly(_body_size(request), _limit(agent, silence))
        if body is None:
            return
        _write(frames, agent.handle(request, body), _limit(agent, silence))


def _limit(agent: Agent, silence: float) -> float:
    """How long to wait for the other side: never so long that one that is gone keeps the lock."""
    return silence if agent.lock.held else IDLE


def _body_size(request: object) -> int:
    """How many bytes follow a request; raises ValueError if it does not say so in a number that can be right."""
    if not isinstance(request, Mapping):
        raise ValueError("a request must be an object")
    size = request.get("body", 0)
    if type(size) is not int or not 0 <= size <= LARGEST_BODY:
        raise ValueError("body must be a number of bytes")
    return size


def _write(frames: Frames, answer: object, silence: float) -> None:
    frames.write(json.dumps(answer).encode() + b"\n", silence)
