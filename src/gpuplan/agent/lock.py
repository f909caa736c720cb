"""The node's lock: flock, so that it falls when its holder is gone, with the holder named in the file."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Mapping

from . import paths
from .files import PRIVATE, make_directory, write_all

PATIENCE = 0.5
"""Seconds to try: whoever only looks who holds the lock has it shared for an instant."""
NAMELESS = {"run": "", "who": "unknown", "since": "", "pid": 0}
"""A holder whose name is not written yet."""


class Lock:
    """One agent's hold on the lock. The file stays; only the flock says whether it is held."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """True while this agent holds the lock."""
        return self._descriptor is not None

    def take(self, owner: Mapping[str, object]) -> dict[str, object]:
        """`{"taken": true}`, or `{"taken": false, "holder": …}` where another has it."""
        if self._descriptor is None:
            make_directory(self._root, PRIVATE, self._root)
            descriptor = os.open(paths.lock(self._root), os.O_RDWR | os.O_CREAT, 0o600)
            if not _locked(descriptor, fcntl.LOCK_EX, PATIENCE):
                os.close(descriptor)
                return {"taken": False, "holder": holder(self._root)}
            self._descriptor = descriptor
        try:
            os.ftruncate(self._descriptor, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            write_all(self._descriptor, json.dumps(dict(owner)).encode())
        except OSError:
            self.release()
            raise
        return {"taken": True}

    def release(self) -> dict[str, object]:
        """Give the lock back; nothing happens where it is not held."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None
        return {}


def holder(root: str) -> Mapping[str, object] | None:
    """Who holds the lock at this moment; None where nobody does, or where this user may not know."""
    try:
        descriptor = os.open(paths.lock(root), os.O_RDONLY)
    except (FileNotFoundError, PermissionError):
        return None
    try:
        if _locked(descriptor, fcntl.LOCK_SH, 0.0):
            return None
        return _named(os.pread(descriptor, 65536, 0))
    finally:
        os.close(descriptor)


def _locked(descriptor: int, kind: int, patience: float) -> bool:
    until = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.02)
        else:
            return True


def _named(written: bytes) -> Mapping[str, object]:
    try:
        owner = json.loads(written)
    except ValueError:
        return NAMELESS
    return owner if isinstance(owner, dict) else NAMELESS
