"""Requests as they arrive on a file descriptor: lines, and the bytes that follow some of them."""

from __future__ import annotations

import os
import select

PIECE = 1 << 18


class Frames:
    """What comes in. An end in the middle of something is an end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._held = bytearray()

    def line(self, silence: float | None) -> bytes:
        """The next line; empty at the end, or after `silence` seconds without a byte (None waits for ever)."""
        while b"\n" not in self._held:
            if not self._read(silence):
                return b""
        return self._take(self._held.index(b"\n") + 1)

    def exactly(self, size: int) -> bytes | None:
        """So many bytes; None at the end."""
        while len(self._held) < size:
            if not self._read(None):
                return None
        return self._take(size)

    def _read(self, silence: float | None) -> bool:
        if silence is not None and not select.select([self._descriptor], [], [], silence)[0]:
            return False
        piece = os.read(self._descriptor, PIECE)
        self._held += piece
        return bool(piece)

    def _take(self, size: int) -> bytes:
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken
