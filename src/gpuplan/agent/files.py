"""Writing to disk so that a crash leaves the old or the new, and a full disk leaves nothing half-written."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

PRIVATE = 0o700
OPEN = 0o755


def make_directory(path: str, mode: int, top: str) -> None:
    """Make `path` and what is missing of it below `top`, whatever the umask; `top` itself is made private."""
    if not os.path.isdir(top):
        os.makedirs(os.path.dirname(top) or ".", exist_ok=True)
        _make(top, PRIVATE)
    current = top
    for part in os.path.relpath(path, top).split(os.sep):
        current = os.path.join(current, part)
        if not os.path.isdir(current):
            _make(current, mode)


def _make(path: str, mode: int) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
        os.chmod(path, mode)


def write_atomically(path: str, content: bytes, mode: int) -> None:
    """Replace a file in one rename, synced to disk."""
    new = "{}.{}.new".format(path, os.getpid())
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        try:
            os.fchmod(descriptor, mode)
            write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise
    sync_directory(os.path.dirname(path))


def write_all(descriptor: int, content: bytes) -> None:
    """Write every byte; one call may write fewer."""
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def walk(top: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """os.walk, but a directory that cannot be listed is an OSError, where os.walk shows it empty.

    Nothing where there is no directory at `top`.
    """

    def tell(error: OSError) -> None:
        if error.filename != top or not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise error

    return os.walk(top, onerror=tell)


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_tree(path: str) -> None:
    """Remove a directory, a file or a link; nothing happens where there is none."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
