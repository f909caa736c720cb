"""Where everything lies on the node, and which names from outside may become a path."""

from __future__ import annotations

import os
import re

from .failure import Failure

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
        raise Failure("invalid", "not a name of a {}: {!r}".format(what, name))
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
        raise Failure("invalid", "not a path inside a model: {!r}".format(path))
    return path


def lock(root: str) -> str:
    """The lock file."""
    return os.path.join(root, "lock")


def blobs(root: str) -> str:
    """The directory of all blobs."""
    return os.path.join(root, "blobs")


def blob(root: str, digest: str) -> str:
    """One blob."""
    return os.path.join(blobs(root), checked_digest(digest)[:2], digest)


def incoming_directory(root: str) -> str:
    """The directory of content that has not fully arrived."""
    return os.path.join(blobs(root), "incoming")


def incoming(root: str, digest: str) -> str:
    """One content that has not fully arrived."""
    return os.path.join(incoming_directory(root), checked_digest(digest))


def plans(root: str) -> str:
    """The directory of all plan files."""
    return os.path.join(root, "plans")


def plan(root: str, name: str) -> str:
    """The directory of one plan file."""
    return os.path.join(plans(root), checked_name(name, "plan"))


def repositories(root: str, plan_name: str) -> str:
    """The directory of a plan's repositories."""
    return os.path.join(plan(root, plan_name), "triton")


def repository(root: str, plan_name: str, container: str) -> str:
    """One container's repository, which it sees as /gpuplan."""
    return os.path.join(repositories(root, plan_name), checked_name(container, "container"))
