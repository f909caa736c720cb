"""Blobs: file content by its SHA-256, which arrives in pieces and counts only once it is whole and right."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence

from . import paths
from .failure import Failure
from .files import PRIVATE, make_directory, remove_tree, sync_directory, walk, write_all

PIECE = 1 << 20
MODE = 0o644
"""Blobs become the files that a server reads, under whichever user it runs."""


class Blobs:
    """The blobs below a root."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._incoming: _Incoming | None = None
        self._seen: dict[str, tuple[int, int, int]] = {}

    def missing(self, digests: Sequence[str]) -> dict[str, object]:
        """Those that are not here. A blob that was edited through a hard link no longer matches, and is removed."""
        return {"missing": [digest for digest in digests if not self.intact(digest)]}

    def intact(self, digest: str) -> bool:
        """True where the content is here and has that digest. Hashed once for each state of the file."""
        path = paths.blob(self._root, digest)
        try:
            state = _state(path)
        except FileNotFoundError:
            return False
        if self._seen.get(digest) == state:
            return True
        if hash_file(path) != digest:
            os.unlink(path)
            return False
        self._seen[digest] = state
        return True

    def put(self, digest: str, size: int, offset: int, body: bytes, last: bool) -> dict[str, object]:
        """One piece of a blob, in order; the last one is checked and makes it a blob.

        Raises Failure `corrupt` where size or digest differ, OSError where the disk is full; nothing is left of it.
        """
        paths.checked_digest(digest)
        try:
            if offset == 0:
                self.abandon()
                self._incoming = _Incoming(paths.blobs(self._root), self._root)
            if self._incoming is None or self._incoming.written != offset:
                raise Failure("invalid", "a piece of {} is out of order".format(digest))
            self._incoming.write(body)
            if last:
                self._incoming.finish(digest, size, paths.blob(self._root, digest))
        except BaseException:
            self.abandon()
            raise
        if last:
            self.abandon()
            self._seen[digest] = _state(paths.blob(self._root, digest))
        return {}

    def abandon(self) -> None:
        """Forget a blob that has not fully arrived."""
        if self._incoming is not None:
            self._incoming.close()
            self._incoming = None

    def collect(self) -> dict[str, object]:
        """Remove blobs with no other hard link: no repository of any plan uses them."""
        removed = freed = 0
        for directory, _, names in walk(paths.blobs(self._root)):
            for name in names:
                path = os.path.join(directory, name)
                state = os.lstat(path)
                if state.st_nlink == 1:
                    os.unlink(path)
                    removed, freed = removed + 1, freed + state.st_size
        return {"removed": removed, "bytes": freed}


class _Incoming:
    """Content on its way, in a file without a name (open(2), O_TMPFILE) where there are such: it dies with us."""

    def __init__(self, directory: str, root: str) -> None:
        make_directory(directory, PRIVATE, root)
        self._named = ""
        self._root = root
        self._hash = hashlib.sha256()
        self.written = 0
        try:
            self._descriptor = os.open(directory, os.O_TMPFILE | os.O_WRONLY, MODE)
        except OSError:
            self._named = os.path.join(directory, ".incoming.{}".format(os.getpid()))
            self._descriptor = os.open(self._named, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, MODE)
        os.fchmod(self._descriptor, MODE)

    def write(self, body: bytes) -> None:
        write_all(self._descriptor, body)
        self._hash.update(body)
        self.written += len(body)

    def finish(self, digest: str, size: int, path: str) -> None:
        if self.written != size or self._hash.hexdigest() != digest:
            raise Failure("corrupt", "content does not have the SHA-256 {}".format(digest))
        os.fsync(self._descriptor)
        make_directory(os.path.dirname(path), PRIVATE, self._root)
        remove_tree(path)
        source = self._named or "/proc/self/fd/{}".format(self._descriptor)
        directory = os.open(os.path.dirname(path), os.O_RDONLY)
        try:  # with a directory given, Python calls linkat(2), which follows the link in /proc to the nameless file
            os.link(source, path, src_dir_fd=directory, follow_symlinks=True)
        finally:
            os.close(directory)
        sync_directory(os.path.dirname(path))

    def close(self) -> None:
        os.close(self._descriptor)
        if self._named:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._named)


def hash_file(path: str) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(PIECE), b""):
            found.update(piece)
    return found.hexdigest()


def _state(path: str) -> tuple[int, int, int]:
    """What changes when a file is written. Not its ctime: a further hard link changes that as well."""
    state = os.lstat(path)
    return state.st_ino, state.st_size, state.st_mtime_ns
