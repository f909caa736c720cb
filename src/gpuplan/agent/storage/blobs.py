"""Blobs: file content by its SHA-256, which arrives in pieces and counts only once it is whole and right."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from ..failure import Failure
from .files import (
    PRIVATE,
    blob_path,
    blobs_path,
    checked_digest,
    incoming_directory,
    incoming_path,
    make_directory,
    sync_directory,
    walk,
    write_all,
)
from .hashes import Hashes

# Content on its way to the node: kept where it was cut off, so that the next run goes on from there.

PIECE = 1 << 20
MODE = 0o644
"""Blobs become the files that a server reads, under whichever user it runs."""


class Incoming:
    """One content that arrives in pieces. Two that write the same see it by its size, or at the latest by its hash."""

    def __init__(self, root: str, digest: str, size: int, restart: bool) -> None:
        """Open what is there of it; `restart` drops it."""
        self._root = root
        self._digest = digest
        self._size = size
        self._path = incoming_path(root, digest)
        make_directory(os.path.dirname(self._path), PRIVATE, root)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        if restart or os.fstat(self._descriptor).st_size > size:
            os.ftruncate(self._descriptor, 0)
        self._hash = hashlib.sha256()
        for piece in iter(lambda: os.read(self._descriptor, PIECE), b""):
            self._hash.update(piece)
        self.written = os.fstat(self._descriptor).st_size

    def write(self, body: bytes) -> None:
        """The next piece."""
        if os.fstat(self._descriptor).st_size != self.written:
            raise Failure("busy", "another run is sending {} too".format(self._digest))
        write_all(self._descriptor, body)
        self._hash.update(body)
        self.written += len(body)

    def check(self) -> None:
        """Raises Failure `corrupt` if size or digest differ."""
        if self.written != self._size or self._hash.hexdigest() != self._digest:
            raise Failure("corrupt", "content does not have the SHA-256 {}".format(self._digest))

    def finish(self) -> os.stat_result:
        """Make it a blob; what stat(2) says of it."""
        if os.lstat(self._path).st_ino != os.fstat(self._descriptor).st_ino:
            raise Failure("busy", "another run is sending {} too".format(self._digest))
        os.fchmod(self._descriptor, MODE)
        os.fsync(self._descriptor)
        sync_directory(os.path.dirname(publish(self._root, self._path, self._digest)))
        return os.fstat(self._descriptor)

    def close(self) -> None:
        """Leave it as it is."""
        os.close(self._descriptor)

    def drop(self) -> None:
        """Nothing of it is worth keeping."""
        self.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)


def publish(root: str, arrived: str, digest: str) -> str:
    """Put what has arrived in a blob's place; its path."""
    path = blob_path(root, digest)
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


GIVEN_UP = 3 * 86400.0
"""Seconds after the last piece of a content after which it counts as abandoned."""


class Blobs:
    """The blobs below a root."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._hashes = Hashes(root)
        self._incoming: dict[str, Incoming] = {}
        self._awaited: set[str] = set()

    def missing(self, digests: Sequence[str]) -> dict[str, object]:
        """Those that are not here, and how much of each has arrived. Until a switch uses them they are not collected.

        A blob that was edited through a hard link no longer matches, and is removed.
        """
        missing = [digest for digest in digests if not self.intact(digest)]
        self._awaited.update(digests)
        return {"missing": missing, "arrived": {digest: self._arrived(digest) for digest in missing}}

    def intact(self, digest: str) -> bool:
        """True if the content is here and has that digest. Hashed once for each state of the file."""
        path = blob_path(self._root, digest)
        self._hashes.refresh()
        try:
            right = self._hashes.of(path, os.lstat(path)) == digest
        except FileNotFoundError:
            return False
        self._hashes.save()
        if not right:
            os.unlink(path)
        return right

    def begin(self, digest: str, size: int) -> dict[str, object]:
        """Go on with a content where it was cut off: how many bytes of it are here, and whether that is all."""
        if self.intact(digest):
            return {"have": size, "whole": True}
        self._drop(digest, wholly=False)
        self._incoming[digest] = Incoming(self._root, digest, size, restart=False)
        return {"have": self._incoming[digest].written, "whole": False}

    def put(self, digest: str, size: int, offset: int, body: bytes, last: bool) -> dict[str, object]:
        """One piece of a content, in order; the last one is checked and makes it a blob. Offset 0 starts over.

        Raises Failure `corrupt` if size or digest differ, OSError where the disk is full; nothing is left of it.
        """
        checked_digest(digest)
        if offset == 0:
            self._drop(digest, wholly=False)
            self._incoming[digest] = Incoming(self._root, digest, size, restart=True)
        coming = self._incoming.get(digest)
        if coming is None or coming.written != offset:
            self._drop(digest, wholly=False)
            raise Failure("invalid", "received a piece of {} out of order".format(digest))
        try:
            coming.write(body)
            if last:
                self._finish(digest, coming)
        except Failure as failure:
            self._drop(digest, wholly=failure.code == "corrupt")
            raise
        except BaseException:
            self._drop(digest, wholly=True)
            raise
        return {}

    def pack(self, contents: Mapping[str, object], body: bytes) -> dict[str, object]:
        """Many small contents at once, one after the other in the body; all of them, or none where one is wrong.

        Raises Failure `corrupt` if a digest differs or the sizes do not add up, OSError where the disk is full.
        """
        pieces = {digest: piece for digest, piece in _cut(contents, body) if not self.intact(digest)}
        arrived = {digest: incoming_path(self._root, digest) for digest in pieces}
        make_directory(incoming_directory(self._root), PRIVATE, self._root)
        try:
            for digest, piece in pieces.items():
                _write(arrived[digest], piece)
            sync_all(blobs_path(self._root))
        except BaseException:
            for path in arrived.values():
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            raise
        for digest, path in arrived.items():  # their new names last at the latest once a repository's directory does
            self._hashes.note(os.lstat(publish(self._root, path, digest)), digest)
        self._hashes.save()
        return {}

    def leave(self) -> None:
        """Forget what has not fully arrived; what is there of it stays for another run."""
        for digest in list(self._incoming):
            self._drop(digest, wholly=False)

    @contextlib.contextmanager
    def relinking(self, directories: Iterable[str], digests: Iterable[str] = ()) -> Iterator[None]:
        """Links to blobs come and go meanwhile, which moves their ctime: what is known of them is kept.

        Of those below the directories, and of those with the digests.
        """
        self._hashes.refresh()
        folders = chain.from_iterable(map(os.walk, directories))
        linked = (os.path.join(folder, name) for folder, _, names in folders for name in names)
        known = dict(self._trusted(chain(linked, (blob_path(self._root, digest) for digest in digests))))
        try:
            yield
        finally:
            for digest, before in known.items():
                with contextlib.suppress(OSError):
                    now = os.lstat(blob_path(self._root, digest))
                    if _same(before, now):
                        self._hashes.note(now, digest)
            self._hashes.save()

    def used(self, digests: Iterable[str]) -> None:
        """A repository has them now."""
        self._awaited.difference_update(digests)

    def collect(self) -> dict[str, object]:
        """Remove blobs with no other hard link, and abandoned transfers: no repository of any plan uses them.

        What was asked for in this process and is not used yet stays.
        """
        removed = freed = 0
        kept: set[int] = set()
        for path in list(self._files()):
            state = os.lstat(path)
            if self._dead(path, state):
                os.unlink(path)
                removed, freed = removed + 1, freed + state.st_size
            else:
                kept.add(state.st_ino)
        self._hashes.keep_only(kept)
        return {"removed": removed, "bytes": freed}

    def _files(self) -> Iterator[str]:
        for directory, _, names in walk(blobs_path(self._root)):
            yield from (os.path.join(directory, name) for name in names)

    def _dead(self, path: str, state: os.stat_result) -> bool:
        digest = os.path.basename(path)
        if os.path.dirname(path) == incoming_directory(self._root):
            return digest not in self._incoming and time.time() - state.st_mtime > GIVEN_UP
        return state.st_nlink == 1 and digest not in self._awaited

    def _trusted(self, files: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
        """Digest and state of files, as far as their content is known."""
        for path in files:
            with contextlib.suppress(OSError):
                state = os.lstat(path)
                digest = self._hashes.known(state)
                if digest:
                    yield digest, state

    def _finish(self, digest: str, coming: Incoming) -> None:
        """Make it a blob, unless another process has meanwhile: repositories are linked to that one."""
        coming.check()
        if self.intact(digest):
            self._drop(digest, wholly=True)
            return
        self._hashes.note(coming.finish(), digest)
        self._hashes.save()
        self._drop(digest, wholly=False)

    def _arrived(self, digest: str) -> int:
        try:
            return os.lstat(incoming_path(self._root, digest)).st_size
        except FileNotFoundError:
            return 0

    def _drop(self, digest: str, wholly: bool) -> None:
        """Forget a content on its way, `wholly` with what is there of it."""
        coming = self._incoming.pop(digest, None)
        if coming is None:
            return
        if wholly:
            coming.drop()
        else:
            coming.close()


def _cut(contents: Mapping[str, object], body: bytes) -> Iterator[tuple[str, bytes]]:
    left = memoryview(body)
    for digest, size in contents.items():
        if type(size) is not int or size < 0:
            raise Failure("invalid", "the size of {} is not a number of bytes".format(digest))
        piece, left = bytes(left[:size]), left[size:]
        if hashlib.sha256(piece).hexdigest() != checked_digest(digest):
            raise Failure("corrupt", "content does not have the SHA-256 {}".format(digest))
        yield digest, piece
    if left:
        raise Failure("corrupt", "the body is longer than the contents")


def _write(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, MODE)
    try:
        os.fchmod(descriptor, MODE)
        write_all(descriptor, content)
    finally:
        os.close(descriptor)


def _same(before: os.stat_result, now: os.stat_result) -> bool:
    """The same file, not written to since."""
    return (before.st_ino, before.st_size, before.st_mtime_ns) == (now.st_ino, now.st_size, now.st_mtime_ns)
