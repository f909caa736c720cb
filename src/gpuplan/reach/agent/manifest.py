"""The repository probe: which files each model of a plan has on the node, by their SHA-256."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from collections.abc import Iterator

from . import paths
from .blobs import hash_file
from .files import walk, write_atomically
from .repository import load_models
from .world import World

SETTLED_NS = 2_000_000_000
"""A file that was written less than 2 s ago may change again within the same time stamp; its hash is not remembered."""

LONGEST_TEXT = 65536
"""Bytes of a config.pbtxt that is still told as text."""


def probe(world: World, plan: str) -> dict[str, object]:
    """The value of the probe `repository`."""
    if not plan:
        return {"repositories": {}}
    top = paths.repositories(world.root, plan)
    hashes = Hashes(os.path.join(paths.plan(world.root, plan), "hashes.json"))
    found = {name: _repository(os.path.join(top, name), hashes) for name in _names(top)}
    hashes.save()
    return {"repositories": found}


class Hashes:
    """SHA-256 of files by what stat(2) says of them, kept on the node to save reading them again."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._old = self._read()
        self._new: dict[str, list[object]] = {}

    def of(self, path: str, state: os.stat_result) -> str:
        """The file's SHA-256, read again only where its size, times or inode moved."""
        key = [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]
        known = self._old.get(path)
        found = known[-1] if isinstance(known, list) and known[:-1] == key else hash_file(path)
        if time.time_ns() - max(state.st_mtime_ns, state.st_ctime_ns) > SETTLED_NS:
            self._new[path] = [*key, found]
        return str(found)

    def save(self) -> None:
        """Keep what was found. Only a cache: a full disk or a missing right costs time at the next question only."""
        if self._new != self._old:
            with contextlib.suppress(OSError):
                write_atomically(self._path, json.dumps(self._new).encode(), 0o600)

    def _read(self) -> dict[str, object]:
        try:
            with open(self._path, encoding="utf-8") as file:
                known = json.load(file)
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}


def _repository(here: str, hashes: Hashes) -> dict[str, object]:
    models = os.path.join(here, "models")
    return {
        "load_models": load_models(here),
        "models": {name: _model(os.path.join(models, name), hashes) for name in _names(models)},
    }


def _model(path: str, hashes: Hashes) -> dict[str, object]:
    """One model; its own link is followed, links inside it are not. A link that leads nowhere has no files."""
    return {"content": _content(path), "files": dict(_files(path, hashes))}


def _content(path: str) -> str | None:
    """The digest that the switch wrote beside the directory; None where the directory is not of our making."""
    if not os.path.islink(path):
        return None
    beside = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path))) + ".content"
    try:
        with open(beside, encoding="ascii") as file:
            return file.read(LONGEST_TEXT)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def _files(top: str, hashes: Hashes) -> Iterator[tuple[str, dict[str, object]]]:
    for directory, folders, names in walk(top):
        if not folders and not names and directory != top:
            yield os.path.relpath(directory, top) + "/", {"size": 0, "sha256": ""}
        for name in sorted(folders + names):
            path = os.path.join(directory, name)
            state = os.lstat(path)
            if stat.S_ISLNK(state.st_mode):
                yield os.path.relpath(path, top), {"link": os.readlink(path)}
            elif stat.S_ISREG(state.st_mode):
                found: dict[str, object] = {"size": state.st_size, "sha256": hashes.of(path, state)}
                if path == os.path.join(top, "config.pbtxt"):
                    found.update(_text(path, state.st_size))
                yield os.path.relpath(path, top), found


def _text(path: str, size: int) -> dict[str, object]:
    """The text of a model's config, so that a difference can be told field by field; nothing where it is none."""
    if size > LONGEST_TEXT:
        return {}
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return {"text": file.read(LONGEST_TEXT)}
    except ValueError:
        return {}


def _names(directory: str) -> list[str]:
    """What lies in a directory; nothing where there is none. A right that is missing is told, not hidden."""
    try:
        return sorted(name for name in os.listdir(directory) if not name.startswith("."))
    except FileNotFoundError:
        return []
