"""What a file's SHA-256 was when it was last read or written by us, so that unchanged gigabytes are not read again.

One file for the whole node, a line for each state of an inode; later lines win. It is a cache: a lost or torn line
costs time only.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Collection
from typing import Tuple

from .files import write_all, write_atomically

PIECE = 1 << 20
SETTLED_NS = 2_000_000_000
"""A file that was written less than 2 s ago may change again within the same time stamp; what was read of it is not
remembered."""
_LINE = re.compile(r"(\d+) (\d+) (\d+) (\d+) ([0-9a-f]{64})\Z")

State = Tuple[int, int, int, int]
"""Inode, size, mtime and ctime in ns."""


def state_of(stat: os.stat_result) -> State:
    """What moves when a file's content does."""
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def hash_file(path: str) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(PIECE), b""):
            found.update(piece)
    return found.hexdigest()


class Hashes:
    """The hashes of the files below a root, as far as they are known."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._path = os.path.join(root, "hashes")
        self._known: dict[int, tuple[State, str]] = {}
        self._fresh: dict[int, tuple[State, str]] = {}
        self._seen: object = None

    def refresh(self) -> None:
        """Take in what other processes have learned since."""
        try:
            now = os.stat(self._path)
        except OSError:
            return
        if self._seen == state_of(now):
            return
        self._seen = state_of(now)
        with contextlib.suppress(OSError), open(self._path, encoding="ascii", errors="replace") as file:
            for line in file:
                match = _LINE.match(line.rstrip("\n"))
                if match:
                    inode, size, written, changed = (int(match.group(number)) for number in (1, 2, 3, 4))
                    self._known[inode] = ((inode, size, written, changed), match.group(5))
        self._known.update(self._fresh)

    def known(self, stat: os.stat_result) -> str:
        """The SHA-256 of a file in this state; empty if it is not known."""
        found = self._known.get(stat.st_ino)
        return found[1] if found and found[0] == state_of(stat) else ""

    def of(self, path: str, stat: os.stat_result) -> str:
        """The file's SHA-256, read again only where its inode, size or times moved."""
        found = self.known(stat)
        if not found:
            began = time.time_ns()
            found = hash_file(path)
            settled = began - max(stat.st_mtime_ns, stat.st_ctime_ns) > SETTLED_NS
            if settled and state_of(os.lstat(path)) == state_of(stat):
                self.note(stat, found)
        return found

    def note(self, stat: os.stat_result, digest: str) -> None:
        """A file in this state has that SHA-256."""
        if self.known(stat) != digest:
            self._known[stat.st_ino] = self._fresh[stat.st_ino] = (state_of(stat), digest)

    def save(self) -> None:
        """Keep what is new. A full disk or a missing right costs time at the next question only."""
        if not self._fresh or not os.path.isdir(self._root):
            return
        text = "".join(_line(*entry) for entry in self._fresh.values())
        self._fresh = {}
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                before = state_of(os.fstat(descriptor))
                write_all(descriptor, text.encode())
                if before == self._seen or not before[1]:  # no other process has written
                    self._seen = state_of(os.fstat(descriptor))
            finally:
                os.close(descriptor)

    def keep_only(self, inodes: Collection[int]) -> None:
        """Forget all other files, and write down what is left in one go; where nothing is left, no file is."""
        self.refresh()
        self._known = {inode: entry for inode, entry in self._known.items() if inode in inodes}
        self._fresh = {}
        text = "".join(_line(*entry) for entry in self._known.values())
        with contextlib.suppress(OSError):
            if not text:
                os.unlink(self._path)
            elif os.path.getsize(self._path) != len(text):
                write_atomically(self._path, text.encode(), 0o600)


def _line(state: State, digest: str) -> str:
    return "{} {} {} {} {}\n".format(*state, digest)
