"""Lines to and from a program at the other end of a pipe: in step, in time, and kept alive."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from typing import NamedTuple, Protocol

from gpuplan.types.diagnostic import Diagnostic

KEEPALIVE_INTERVAL = 30.0
"""Seconds between the empty lines that keep the node's lock ours."""
LARGEST = 1 << 28
"""Bytes of one answer; the snapshot of a node with thousands of model files has a few million."""


class Pipe(Protocol):
    """Standard input, output and error of a program on the node."""

    def send(self, data: bytes) -> None:
        """Write all of it; raises OSError where the program or the connection is gone, TimeoutError where it stalls."""
        ...

    def receive(self, timeout: float) -> bytes:
        """Some bytes, empty at the end; raises TimeoutError."""
        ...

    def complaint(self) -> str:
        """What it wrote to standard error; complete once `receive` has come to the end."""
        ...

    def status(self) -> int | None:
        """Its exit status, where it has ended and the status is known."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class TooLarge(Exception):
    """A line has more bytes than any answer has."""


class AgentLines:
    """Requests and their answers, one line each. Only signs of life are sent from a thread of their own."""

    def __init__(self, node: str, pipe: Pipe) -> None:
        self._node = node
        self._pipe = pipe
        self._held = bytearray()
        self._owed = 0
        self._torn = False
        self._sending = threading.Lock()
        self._closed = threading.Event()

    def keep_alive(self) -> None:
        """Begin to give signs of life."""
        threading.Thread(target=self._give_signs, name=f"alive-{self._node}", daemon=True).start()

    def request(self, frame: bytes) -> None:
        """Send a request. One that an interrupt tore apart leaves nothing that the agent could understand."""
        if self._torn:
            raise ConnectionError
        self._torn = True
        self.send(frame)
        self._torn = False
        self._owed += 1

    def answer(self, timeout: float) -> bytes:
        """The answer to the last request; those that an interrupt kept us from reading come first."""
        line = b""
        while self._owed:
            line = self.line(timeout)
            self._owed -= 1
        return line

    def send(self, data: bytes) -> None:
        """Write all of it; raises OSError, ConnectionError where the program takes nothing of it any more."""
        with self._sending:
            try:
                self._pipe.send(data)
            except TimeoutError as error:
                raise ConnectionError("the program takes nothing of what it is sent") from error

    def line(self, timeout: float) -> bytes:
        """The next line, all of it within `timeout` seconds.

        Raises:
            TimeoutError: it did not end in time.
            ConnectionError: the program has ended.
            TooLarge: it is longer than any answer.
        """
        until = time.monotonic() + timeout
        seen = 0
        while (end := self._held.find(b"\n", seen)) < 0:
            seen = len(self._held)
            if seen > LARGEST:
                raise TooLarge
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            piece = self._pipe.receive(left)
            if not piece:
                raise ConnectionError("the agent has ended")
            self._held += piece
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        return line

    def close(self) -> None:
        """End it; may be called twice."""
        self._closed.set()
        self._pipe.close()

    def _give_signs(self) -> None:
        while not self._closed.wait(KEEPALIVE_INTERVAL):
            with contextlib.suppress(OSError):
                self.send(b"\n")


# Why a program did not start on a node, from its exit status and the output of sudo, the shell or Python.


class Reason(NamedTuple):
    """A pattern of the words on standard error, and what they mean."""

    said: str
    summary: str
    fix: str


SUDO_FIX = (
    "Add a sudoers rule without a password for the SSH user (visudo: USER ALL=(root) NOPASSWD: ALL), "
    "or set ansible_become: false."
)
REASONS = (
    Reason(
        r"sudo: (.*a password is required|.*a terminal is required|no tty present|.*must have a tty)",
        "sudo asks for a password",
        SUDO_FIX,
    ),
    Reason(
        r"not in the sudoers|not allowed to (run|execute)|may not run sudo|sudo: .*not permitted",
        "sudo denied the command",
        SUDO_FIX,
    ),
    Reason(
        r"sudo: [^\n]*python[^\n]*: command not found|"
        r"env: [^\n]*python[^\n]*(No such file|not found|Permission denied)",
        "Python is missing on the node",
        "Install Python 3.8 or later on the node, or set ansible_python_interpreter to its path.",
    ),
    Reason(
        r"env: [^\n]*sudo[^\n]*(No such file|not found)",
        "sudo is missing on the node",
        "Install sudo on the node, or set ansible_user: root and ansible_become: false.",
    ),
    Reason(
        r"This account is (currently )?not available|This service allows|nologin",
        "The SSH user has no login shell",
        "Set ansible_user to a user with a login shell, or give this one a shell (chsh).",
    ),
)


def explain_start(node: str, status: int | None, complaint: str) -> Diagnostic:
    """The diagnostic for a program that ended before its first word."""
    said = complaint.strip()
    detail = f"Output: {said[-500:]}" if said else f"It exited with status {status} and no output."
    for reason in REASONS:
        if re.search(reason.said, said, re.IGNORECASE):
            return Diagnostic(reason.summary, detail, reason.fix, address=node)
    return Diagnostic(
        "The agent did not start",
        detail,
        "Run python3 -c 'print(1)' on the node, with sudo if ansible_become is set, to see why.",
        address=node,
    )
