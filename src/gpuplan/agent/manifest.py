"""The repository probe: which files each model of a plan has on the node, by their SHA-256."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from . import paths
from .failure import Failure, explain
from .files import walk
from .generations import CURRENT, VERSIONS, Generations, content_of, target
from .hashes import Hashes
from .repository import load_models
from .world import World

LONGEST_TEXT = 65536
"""Bytes of a config.pbtxt that is still told as text."""
ODD = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
"""What else may lie in a directory."""


def probe(world: World, plan: str) -> dict[str, object]:
    """The value of the probe `repository`."""
    if not plan:
        return {"repositories": {}}
    top = paths.repositories(world.root, plan)
    hashes = Hashes(world.root)
    hashes.refresh()
    return {"repositories": {name: _repository(os.path.join(top, name), hashes) for name in _names(top)}}


def _repository(here: str, hashes: Hashes) -> dict[str, object]:
    names = _names(os.path.join(here, CURRENT))
    return {"load_models": load_models(here), "models": {name: _guarded(here, name, hashes) for name in names}}


def _guarded(here: str, name: str, hashes: Hashes) -> dict[str, object]:
    """One model; one that cannot be read does not keep the others from being told."""
    try:
        return _model(here, name, hashes)
    except (OSError, Failure) as error:
        return {"error": explain(error).to_json()}


def _model(here: str, name: str, hashes: Hashes) -> dict[str, object]:
    """Its own link is followed where it leads to a directory of ours, links inside it are not.

    Where it leads anywhere else, or nowhere, the model has no files.
    """
    path = os.path.join(here, CURRENT, name)
    if not os.path.islink(path):
        return {"content": None, "files": dict(_files(path, hashes))}
    directory = target(path)
    if not directory:
        return {"content": None, "files": {}}
    path = os.path.join(here, VERSIONS, directory)
    found: dict[str, object] = {"content": content_of(path), "files": dict(_files(path, hashes))}
    generations = Generations(here, name)
    previous = generations.previous()
    return {**found, "previous": generations.content(previous)} if previous else found


def _files(top: str, hashes: Hashes) -> Iterator[tuple[str, dict[str, object]]]:
    for directory, folders, names in walk(top):
        if not folders and not names and directory != top:
            yield os.path.relpath(directory, top) + "/", {"size": 0, "sha256": ""}
        for name in sorted(folders + names):
            path = os.path.join(directory, name)
            state = os.lstat(path)
            if not stat.S_ISDIR(state.st_mode):
                yield os.path.relpath(path, top), _file(path, state, path == os.path.join(top, "config.pbtxt"), hashes)


def _file(path: str, state: os.stat_result, config: bool, hashes: Hashes) -> dict[str, object]:
    if stat.S_ISLNK(state.st_mode):
        return {"link": os.readlink(path)}
    if not stat.S_ISREG(state.st_mode):
        return {"odd": ODD.get(stat.S_IFMT(state.st_mode), "unknown")}
    found: dict[str, object] = {"size": state.st_size, "sha256": hashes.of(path, state)}
    hashes.save()  # at once, so that a probe whose time is up has not read in vain: the next one goes on from there
    return {**found, **_text(path, state.st_size)} if config else found


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
