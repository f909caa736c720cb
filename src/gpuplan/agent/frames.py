"""Requests and answers on file descriptors: lines, and bytes that follow some; nothing is waited for without end."""

from __future__ import annotations

import os
import select

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

        Raises ValueError where the line is longer than LONGEST.
        """
        seen = 0
        while (end := self._held.find(b"\n", seen)) < 0:
            seen = len(self._held)
            if seen > LONGEST:
                raise ValueError("a line has no end")
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
        """Write all of it; raises TimeoutError after `silence` seconds in which nobody took a byte.

        In pieces that cannot block once the descriptor is ready (pipe(7), PIPE_BUF): it may share its open file with
        the one that is read, so its mode stays as it is.
        """
        left = memoryview(content)
        while left:
            if not select.select([], [self._writing], [], silence)[1]:
                raise TimeoutError("nobody reads the answer")
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
