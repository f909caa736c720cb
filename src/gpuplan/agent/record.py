"""The record of the last apply of a plan file, and the journal of all of them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from . import paths
from .failure import Failure
from .files import PRIVATE, make_directory, remove_tree, write_all, write_atomically
from .world import World

LARGEST = 1 << 25
"""Bytes of one record; a resource takes some thousand."""


def probe(world: World, plan: str) -> object:
    """The value of the probe `record`: the record, or None where the plan was never applied."""
    return read(world.root, plan) if plan else None


def read(root: str, plan: str) -> dict[str, object] | None:
    """The record of a plan, or None where it was never applied.

    Raises Failure `bad_record` where it is no JSON object, `too_large` where it cannot be of our writing.
    """
    path = _record(root, plan)
    try:
        with open(path, "rb") as file:
            text = file.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise Failure("too_large", "{} is larger than {} MiB".format(path, LARGEST >> 20))
        record = json.loads(text)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise Failure("bad_record", "{}: {}".format(path, error)) from error
    if not isinstance(record, dict):
        raise Failure("bad_record", "{} holds no object".format(path))
    return record


def names(root: str) -> dict[str, object]:
    """Every plan of which there is a record, in the order of their names."""
    try:
        found = sorted(os.listdir(paths.plans(root)))
    except FileNotFoundError:
        found = []
    return {"plans": [name for name in found if paths.NAME.match(name) and os.path.isfile(_record(root, name))]}


def write(root: str, plan: str, record: Mapping[str, object]) -> dict[str, object]:
    """Replace the record in one rename."""
    text = json.dumps(record, sort_keys=True).encode()
    if len(text) > LARGEST:
        raise Failure("too_large", "the record is larger than {} MiB".format(LARGEST >> 20))
    make_directory(paths.plan(root, plan), PRIVATE, root)
    write_atomically(_record(root, plan), text, 0o600)
    return {}


def remove(root: str, plan: str) -> dict[str, object]:
    """Forget the plan: its record, and its directory where no repository is left in it."""
    remove_tree(_record(root, plan))
    repositories = paths.repositories(root, plan)
    if not os.path.isdir(repositories) or not os.listdir(repositories):
        remove_tree(paths.plan(root, plan))
    return {}


def append(root: str, plan: str, entries: Sequence[object]) -> dict[str, object]:
    """Write entries to the journal, one line each, synced; what did not fit on the disk is taken back."""
    make_directory(paths.plan(root, plan), PRIVATE, root)
    text = "".join(json.dumps(entry, sort_keys=True) + "\n" for entry in entries)
    descriptor = os.open(
        os.path.join(paths.plan(root, plan), "journal.jsonl"), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600
    )
    try:
        before = os.fstat(descriptor).st_size
        try:
            write_all(descriptor, text.encode())
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, before)
            raise
    finally:
        os.close(descriptor)
    return {}


def _record(root: str, plan: str) -> str:
    return os.path.join(paths.plan(root, plan), "record.json")
