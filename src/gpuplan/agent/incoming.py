"""Content on its way to the node: kept where it was cut off, so that the next run goes on from there."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os

from . import paths
from .failure import Failure
from .files import PRIVATE, make_directory, sync_directory, write_all

PIECE = 1 << 20
MODE = 0o644
"""Blobs become the files that a server reads, under whichever user it runs."""


class Incoming:
    """One content that arrives in pieces. Two that write the same see it by its size, or at the latest by its hash."""

    def __init__(self, root: str, digest: str, size: int, anew: bool) -> None:
        """Open what is there of it; `anew` forgets that."""
        self._root = root
        self._digest = digest
        self._size = size
        self._path = paths.incoming(root, digest)
        make_directory(os.path.dirname(self._path), PRIVATE, root)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        if anew or os.fstat(self._descriptor).st_size > size:
            os.ftruncate(self._descriptor, 0)
        self._hash = hashlib.sha256()
        for piece in iter(lambda: os.read(self._descriptor, PIECE), b""):
            self._hash.update(piece)
        self.written = os.fstat(self._descriptor).st_size

    def write(self, body: bytes) -> None:
        """The next piece."""
        if os.fstat(self._descriptor).st_size != self.written:
            raise Failure("busy", "somebody else is bringing {} as well".format(self._digest))
        write_all(self._descriptor, body)
        self._hash.update(body)
        self.written += len(body)

    def check(self) -> None:
        """Raises Failure `corrupt` where size or digest differ."""
        if self.written != self._size or self._hash.hexdigest() != self._digest:
            raise Failure("corrupt", "content does not have the SHA-256 {}".format(self._digest))

    def finish(self) -> os.stat_result:
        """Make it a blob; what stat(2) says of it."""
        if os.lstat(self._path).st_ino != os.fstat(self._descriptor).st_ino:
            raise Failure("busy", "somebody else is bringing {} as well".format(self._digest))
        os.fchmod(self._descriptor, MODE)
        os.fsync(self._descriptor)
        sync_directory(os.path.dirname(settled(self._root, self._path, self._digest)))
        return os.fstat(self._descriptor)

    def close(self) -> None:
        """Leave it as it is."""
        os.close(self._descriptor)

    def drop(self) -> None:
        """Nothing of it is worth keeping."""
        self.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)


def settled(root: str, arrived: str, digest: str) -> str:
    """Put what has arrived in a blob's place; its path."""
    path = paths.blob(root, digest)
    make_directory(os.path.dirname(path), PRIVATE, root)
    os.replace(arrived, path)
    return path


def sync_all(directory: str) -> None:
    """Make everything durable that was written to a file system: one wait for many small files (syncfs(2))."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), directory)
    finally:
        os.close(descriptor)
