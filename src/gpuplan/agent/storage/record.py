"""The record of the last apply of a plan file, and the journal of all of them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Mapping, Sequence

from ..failure import Failure, explain
from ..world import World
from .files import (
    NAME,
    PRIVATE,
    lock_path,
    make_directory,
    plan_path,
    plans_path,
    remove_tree,
    repositories_path,
    write_all,
    write_atomically,
)

# The node's lock: flock, so that it falls when its holder is gone, with the holder named in the file.

PATIENCE = 0.5
"""Seconds to try: a process that reads the lock's holder shares it for an instant."""
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
            descriptor = os.open(lock_path(self._root), os.O_RDWR | os.O_CREAT, 0o600)
            if not _locked(descriptor, fcntl.LOCK_EX, PATIENCE):
                os.close(descriptor)
                return {"taken": False, "holder": lock_holder(self._root)}
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
        """Give the lock back; nothing happens if it is not held."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None
        return {}


def lock_holder(root: str) -> Mapping[str, object] | None:
    """Who holds the lock now; None if it is free, or if this user may not read it."""
    try:
        descriptor = os.open(lock_path(root), os.O_RDONLY)
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


LARGEST = 1 << 25
"""Bytes of one record; a resource takes some thousand."""


def probe(world: World, plan: str) -> object:
    """The value of the probe `record`: the record, or None if the plan was never applied."""
    return read(world.root, plan) if plan else None


def read(root: str, plan: str) -> dict[str, object] | None:
    """The record of a plan, or None if it was never applied.

    Raises Failure `bad_record` if it is no JSON object, `too_large` where it cannot be of our writing.
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
        raise Failure("bad_record", "{} is not a JSON object".format(path))
    return record


def names(root: str) -> dict[str, object]:
    """Every plan of which there is a record, in the order of their names."""
    try:
        found = sorted(os.listdir(plans_path(root)))
    except FileNotFoundError:
        found = []
    return {"plans": [name for name in found if NAME.match(name) and os.path.isfile(_record(root, name))]}


def write(root: str, plan: str, record: Mapping[str, object]) -> dict[str, object]:
    """Replace the record in one rename."""
    text = json.dumps(record, sort_keys=True).encode()
    if len(text) > LARGEST:
        raise Failure("too_large", "the record is larger than {} MiB".format(LARGEST >> 20))
    make_directory(plan_path(root, plan), PRIVATE, root)
    write_atomically(_record(root, plan), text, 0o600)
    return {}


def remove(root: str, plan: str) -> dict[str, object]:
    """Forget the plan: its record, and its directory where no repository is left in it."""
    remove_tree(_record(root, plan))
    repositories = repositories_path(root, plan)
    if not os.path.isdir(repositories) or not os.listdir(repositories):
        remove_tree(plan_path(root, plan))
    return {}


def append(root: str, plan: str, entries: Sequence[object]) -> dict[str, object]:
    """Write entries to the journal, one line each, synced; what did not fit on the disk is taken back."""
    make_directory(plan_path(root, plan), PRIVATE, root)
    text = "".join(json.dumps(entry, sort_keys=True) + "\n" for entry in entries)
    descriptor = os.open(
        os.path.join(plan_path(root, plan), "journal.jsonl"), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600
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
    return os.path.join(plan_path(root, plan), "record.json")


# The others probe: what the other plan files made on this node, so that no plan takes what is another's.

FORMAT = 1
"""The format of a record that is understood (docs/agent.md)."""
KINDS = ("gpu", "container")
"""What plans can take from one another; repositories and models lie within a plan's own."""
MOST = 1000
"""Plan files on one node. A truncated list would mean that the rest is unmanaged, so more is an error."""


def probe_others(world: World, plan: str) -> dict[str, object]:
    """The value of the probe `others`: all other plans. A damaged record is reported in its plan's place."""
    names = [name for name in _plans(world.root) if name != plan]
    if len(names) > MOST:
        raise Failure("too_large", "there are more than {} plan files on the node".format(MOST))
    found = {name: _summary(world.root, name) for name in names}
    return {name: summary for name, summary in found.items() if summary is not None}


def _plans(root: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(plans_path(root)) if NAME.match(name))
    except FileNotFoundError:
        return []


def _summary(root: str, plan: str) -> dict[str, object] | None:
    """What one plan made; None if it has no record, because nothing of it was applied or all was destroyed."""
    try:
        found = read(root, plan)
        return None if found is None else _ours(plan, found)
    except (Failure, OSError) as error:
        return {"error": explain(error).to_json()}


def _ours(plan: str, found: Mapping[str, object]) -> dict[str, object]:
    resources, remembered = found.get("resources"), found.get("remembered")
    if found.get("format") != FORMAT or not isinstance(resources, dict) or not isinstance(remembered, dict):
        raise Failure("bad_record", "the record of {} has a format that this version cannot read".format(plan))
    if found.get("plan") != plan:
        raise Failure("bad_record", "the record of {} belongs to {!r}".format(plan, found.get("plan")))
    return {
        "resources": sorted(filter(_of_interest, resources)),
        "remembered": {address: fact for address, fact in remembered.items() if _of_interest(address)},
    }


def _of_interest(address: str) -> bool:
    """True for an address `node/kind/name` of a kind that plans can take from one another."""
    return address.split("/")[1:2] in ([kind] for kind in KINDS)
