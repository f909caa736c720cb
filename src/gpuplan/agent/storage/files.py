"""Writing to disk so that a crash leaves the old or the new, and a full disk leaves nothing half-written."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator

from ..failure import Failure

# Where everything lies on the node, and which names from outside may become a path.

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")
DIGEST = re.compile(r"[0-9a-f]{64}\Z")
NO_TEXT = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
"""Control characters, and bytes that are no UTF-8."""
LONGEST = 255
"""NAME_MAX: bytes of one part of a path."""
LONGEST_PATH = 2048
"""Bytes of a path inside a model's directory; with what stands before it, it stays below PATH_MAX (4096)."""


def checked_name(name: str, what: str) -> str:
    """A name of a plan, container or model; `invalid` where it could leave its directory or break a command line."""
    if not NAME.match(name):
        raise Failure("invalid", "not a valid {} name: {!r}".format(what, name))
    return name


def checked_digest(digest: str) -> str:
    """A SHA-256 in hexadecimal."""
    if not DIGEST.match(digest):
        raise Failure("invalid", "not a SHA-256: {!r}".format(digest))
    return digest


def checked_file(path: str) -> str:
    """A relative path inside a model's directory; one that ends with a slash is an empty directory."""
    parts = (path[:-1] if path.endswith("/") else path).split("/")
    odd = NO_TEXT.search(path) or len(path.encode("utf-8")) > LONGEST_PATH
    if odd or any(part in ("", ".", "..") or len(part.encode("utf-8")) > LONGEST for part in parts):
        raise Failure("invalid", "not a valid path inside a model: {!r}".format(path))
    return path


def lock_path(root: str) -> str:
    """The lock file."""
    return os.path.join(root, "lock")


def blobs_path(root: str) -> str:
    """The directory of all blobs."""
    return os.path.join(root, "blobs")


def blob_path(root: str, digest: str) -> str:
    """One blob."""
    return os.path.join(blobs_path(root), checked_digest(digest)[:2], digest)


def incoming_directory(root: str) -> str:
    """The directory of content that has not fully arrived."""
    return os.path.join(blobs_path(root), "incoming")


def incoming_path(root: str, digest: str) -> str:
    """One content that has not fully arrived."""
    return os.path.join(incoming_directory(root), checked_digest(digest))


def plans_path(root: str) -> str:
    """The directory of all plan files."""
    return os.path.join(root, "plans")


def plan_path(root: str, name: str) -> str:
    """The directory of one plan file."""
    return os.path.join(plans_path(root), checked_name(name, "plan"))


def repositories_path(root: str, plan_name: str) -> str:
    """The directory of a plan's repositories."""
    return os.path.join(plan_path(root, plan_name), "triton")


def repository_path(root: str, plan_name: str, container: str) -> str:
    """One container's repository, which it sees as /gpuplan."""
    return os.path.join(repositories_path(root, plan_name), checked_name(container, "container"))


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

    Nothing if there is no directory at `top`.
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
    """Remove a directory, a file or a link; nothing happens if there is none."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
