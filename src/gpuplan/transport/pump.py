"""Carrying bytes between a socket of this machine and an SSH channel, both ways, with threads that end."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

import paramiko

PIECE = 1 << 16
PATIENCE = 5.0
"""Seconds for a thread to see that its two ends are closed."""


class Pump:
    """One running pair of carriers; owns both ends. `ended` is called once, when both ways are done."""

    def __init__(self, near: socket.socket, far: paramiko.Channel, ended: Callable[[paramiko.Channel], None]) -> None:
        self._near = near
        self._far = far
        self._ended = ended
        self._left = 2
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=way, daemon=True) for way in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End both ways, now; returns when their threads have ended."""
        with contextlib.suppress(OSError):
            self._near.shutdown(socket.SHUT_RDWR)
        self._far.close()
        for thread in self._threads:
            thread.join(PATIENCE)

    @property
    def done(self) -> bool:
        """True once both ways have ended."""
        return self._left == 0

    def _send(self) -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            while piece := self._near.recv(PIECE):
                self._far.sendall(piece)
            # Not the channel's end of file alone: paramiko may send that after a close, and sshd ends the connection
            self._far.close()
        self._one_less()

    def _receive(self) -> None:
        try:
            while piece := self._far.recv(PIECE):
                self._near.sendall(piece)
            self._near.shutdown(socket.SHUT_WR)
        except (OSError, EOFError, paramiko.SSHException):
            self._far.close()  # nobody reads any more, so the program at the far end is to end as well
        self._one_less()

    def _one_less(self) -> None:
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self._near.close()
            self._ended(self._far)
