"""A Triton container's model repository: directories of hard links to blobs, switched in one rename."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Mapping

from ..failure import Failure, explain
from ..world import World
from .blobs import Blobs
from .files import (
    OPEN,
    blob_path,
    checked_digest,
    checked_file,
    checked_name,
    make_directory,
    remove_tree,
    repositories_path,
    repository_path,
    sync_directory,
    walk,
    write_atomically,
)
from .hashes import Hashes

# A model's directories: the current one and the previous one. Two links say which is which, `models/MODEL` and
# `previous/MODEL`; each step is one rename of a link. Directories that neither names are removed at the next step.

CURRENT = "models"
PREVIOUS = "previous"
VERSIONS = "versions"
BUILDING = ".building"
CONTENT = ".content"
"""Ends the name of the file next to a directory that holds the whole digest of its content."""
_LEADS = re.compile(r"\.\./versions/([^/]+)\Z")


class Generations:
    """The directories of one model below one repository."""

    def __init__(self, here: str, model: str) -> None:
        self._here = here
        self._model = model
        self._versions = os.path.join(here, VERSIONS)
        self._pattern = re.compile(re.escape(model) + r"\.[0-9a-f]{12}\.(\d+)(?:\.content(?:\.\d+\.new)?)?\Z")

    def current(self) -> str:
        """Name of the directory that a server sees; empty if there is none of our making."""
        return self._target(CURRENT)

    def previous(self) -> str:
        """Name of the directory that stands by in case the current one does not prove itself; empty if none does."""
        found = self._target(PREVIOUS)
        return "" if found == self.current() else found

    def content(self, name: str) -> str:
        """The whole digest of a directory's content; empty if it is not known."""
        return content_of(os.path.join(self._versions, name)) or ""

    def directories(self) -> list[str]:
        """All that stand, of whatever age."""
        return [os.path.join(self._versions, name) for name in self._names() if not name.endswith(CONTENT)]

    def next_name(self, content: str) -> str:
        """A name for a directory that is to be built."""
        return "{}.{}.{}".format(self._model, content[:12], max(self._names().values(), default=0) + 1)

    def advance(self, name: str, content: str) -> None:
        """Make a finished directory the current one; what it takes the place of stands by.

        A previous one that was never settled stays instead, since it is the last that proved itself; so does it where
        the content is the same, which proves nothing new.
        """
        before = self.current()
        if before and not self.previous() and self.content(before) != content:
            self._point(PREVIOUS, before)
        self._point(CURRENT, name)
        self.tidy()

    def go_back(self) -> bool:
        """Make the previous directory the current one in one rename; False if there is none."""
        before = self.previous()
        if not before:
            return False
        # Triton reloads what has a newer time
        os.utime(os.path.join(self._versions, before))
        os.replace(self._link(PREVIOUS), self._link(CURRENT))
        sync_directory(os.path.join(self._here, CURRENT))
        sync_directory(os.path.join(self._here, PREVIOUS))
        self.tidy()
        return True

    def settle(self) -> None:
        """Drop the previous directory."""
        remove_tree(self._link(PREVIOUS))
        self.tidy()

    def end(self) -> None:
        """Take the model away altogether."""
        remove_tree(self._link(CURRENT))
        remove_tree(self._link(PREVIOUS))
        self.tidy()

    def tidy(self) -> None:
        """Remove the directories that are neither current nor previous, and one that was never finished."""
        remove_tree(os.path.join(self._versions, BUILDING))
        kept = {self._target(CURRENT), self._target(PREVIOUS)}
        for name in self._names():
            if (name[: -len(CONTENT)] if name.endswith(CONTENT) else name) not in kept:
                remove_tree(os.path.join(self._versions, name))

    def _names(self) -> dict[str, int]:
        """Names in versions/ that are of this model → their number."""
        with contextlib.suppress(FileNotFoundError):
            matches = ((name, self._pattern.match(name)) for name in os.listdir(self._versions))
            return {name: int(match.group(1)) for name, match in matches if match}
        return {}

    def _link(self, place: str) -> str:
        return os.path.join(self._here, place, self._model)

    def _target(self, place: str) -> str:
        """What a link names in versions/, where that is a directory of this model."""
        name = link_target(self._link(place))
        matches = self._pattern.match(name) and not name.endswith(CONTENT)
        return name if matches and os.path.isdir(os.path.join(self._versions, name)) else ""

    def _point(self, place: str, name: str) -> None:
        """Make a link lead to a directory. A real directory that was put there by hand gives way."""
        link = self._link(place)
        make_directory(os.path.dirname(link), OPEN, self._here)
        new = os.path.join(self._versions, ".link")
        remove_tree(new)
        os.symlink("../{}/{}".format(VERSIONS, name), new)
        if os.path.isdir(link) and not os.path.islink(link):
            remove_tree(link)
        os.replace(new, link)
        sync_directory(os.path.dirname(link))


def link_target(link: str) -> str:
    """The name in versions/ that a link of ours leads to; empty for anything else."""
    try:
        match = _LEADS.match(os.readlink(link))
    except OSError:
        return ""
    return match.group(1) if match else ""


def content_of(directory: str) -> str | None:
    """The digest that was written next to a directory; None if none was."""
    try:
        with open(directory + CONTENT, encoding="ascii") as file:
            return file.read(64)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


FLAG = "--load-model="


class Repositories:
    """All repositories below a root. Model names and paths are checked before they become one."""

    def __init__(self, root: str, blobs: Blobs) -> None:
        self._root = root
        self._blobs = blobs

    def prepare(self, plan: str, container: str) -> dict[str, object]:
        """Make the empty repository, if it is not there; its path is what the container mounts."""
        here = repository_path(self._root, plan, container)
        for name in (CURRENT, PREVIOUS, VERSIONS):
            make_directory(os.path.join(here, name), OPEN, self._root)
        if not os.path.exists(_load_models(here)):
            write_atomically(_load_models(here), b"", 0o644)
        return {"path": here}

    def switch(
        self, plan: str, container: str, model: str, content: str, files: Mapping[str, object]
    ) -> dict[str, object]:
        """Build a directory of the files and make it the model's in one rename; the one before it stands by.

        Raises Failure `not_found` if a blob is missing or damaged; then nothing has changed.
        """
        checked_name(model, "model")
        checked_digest(content)
        wanted = {checked_file(path): _blob(path, digest) for path, digest in files.items()}
        gone = sorted({digest for digest in wanted.values() if digest and not self._blobs.intact(digest)})
        if gone:
            raise Failure("not_found", "content is missing: {}".format(", ".join(gone)))
        self.prepare(plan, container)
        here = repository_path(self._root, plan, container)
        generations = Generations(here, model)
        digests = {digest for digest in wanted.values() if digest}
        with self._blobs.relinking(generations.directories(), digests):
            name = self._build(here, generations.next_name(content), content, wanted)
            generations.advance(name, content)
        self._blobs.used(digests)
        return {}

    def settle(self, plan: str, container: str, model: str) -> dict[str, object]:
        """The current directory has proved itself: the one before it goes, where there is one."""
        generations = self._generations(plan, container, model)
        with self._blobs.relinking(generations.directories()):
            generations.settle()
        return {}

    def restore(self, plan: str, container: str, model: str) -> dict[str, object]:
        """Make the previous directory the model's again in one rename; the newer one goes.

        Raises Failure `not_found` if there is no previous one; then nothing has changed.
        """
        generations = self._generations(plan, container, model)
        with self._blobs.relinking(generations.directories()):
            if not generations.go_back():
                raise Failure("not_found", "there are no previous files of {}".format(model))
        return {"content": generations.content(generations.current())}

    def remove(self, plan: str, container: str, model: str | None) -> dict[str, object]:
        """Remove one model's files, or the whole repository."""
        here = repository_path(self._root, plan, container)
        if model is None:
            with self._blobs.relinking([os.path.join(here, VERSIONS)]):
                remove_tree(here)
        elif os.path.isdir(here):
            generations = self._generations(plan, container, model)
            self.load_at_start(plan, container, model, wanted=False)
            with self._blobs.relinking(generations.directories()):
                generations.end()
        return {}

    def load_at_start(self, plan: str, container: str, model: str, wanted: bool) -> dict[str, object]:
        """Add a model to, or take it from, those that the server loads when it starts.

        Where there is no repository nothing is taken from it, and none is made for that.
        """
        checked_name(model, "model")
        here = repository_path(self._root, plan, container)
        if not wanted and not os.path.isdir(here):
            return {"load_models": []}
        models = [each for each in load_models(here) if each != model] + [model] * wanted
        text = "".join("{}{}\n".format(FLAG, each) for each in sorted(models))
        make_directory(here, OPEN, self._root)
        write_atomically(_load_models(here), text.encode(), 0o644)
        return {"load_models": sorted(models)}

    def _generations(self, plan: str, container: str, model: str) -> Generations:
        return Generations(repository_path(self._root, plan, container), checked_name(model, "model"))

    def _build(self, here: str, name: str, content: str, files: Mapping[str, str]) -> str:
        """A finished directory in versions/; its name."""
        versions = os.path.join(here, VERSIONS)
        building = os.path.join(versions, BUILDING)
        remove_tree(building)
        try:
            self._link(building, files)
            write_atomically(os.path.join(versions, name + CONTENT), content.encode(), 0o644)
            os.rename(building, os.path.join(versions, name))
        except BaseException:
            remove_tree(building)
            raise
        # Triton reloads what has a newer time, and the hard links keep the times of their blobs
        os.utime(os.path.join(versions, name))
        sync_directory(versions)
        return name

    def _link(self, building: str, files: Mapping[str, str]) -> None:
        make_directory(building, OPEN, self._root)
        for path, digest in files.items():
            target = os.path.join(building, path)
            try:
                make_directory(os.path.dirname(target), OPEN, self._root)
                if digest:
                    os.link(blob_path(self._root, digest), target)
            except (FileExistsError, NotADirectoryError) as error:
                raise Failure("invalid", "{} is both a file and a directory".format(path)) from error
        for directory, _, _ in walk(building):
            sync_directory(directory)


def load_models(here: str) -> list[str]:
    """The models that the server of a repository loads when it starts."""
    try:
        with open(_load_models(here), encoding="utf-8", errors="replace") as file:
            return sorted(line.strip()[len(FLAG) :] for line in file if line.startswith(FLAG))
    except FileNotFoundError:
        return []


def _blob(path: str, digest: object) -> str:
    """The digest of a file's content; an empty directory has none."""
    if not isinstance(digest, str) or path.endswith("/") != (digest == ""):
        raise Failure("invalid", "{} needs a SHA-256".format(path))
    return checked_digest(digest) if digest else ""


def _load_models(here: str) -> str:
    return os.path.join(here, "load-models")


# The repository probe: which files each model of a plan has on the node, by their SHA-256.

LONGEST_TEXT = 65536
"""Bytes up to which a config.pbtxt is reported as text."""
ODD = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
"""What else may lie in a directory."""


def probe(world: World, plan: str) -> dict[str, object]:
    """The value of the probe `repository`."""
    if not plan:
        return {"repositories": {}}
    top = repositories_path(world.root, plan)
    hashes = Hashes(world.root)
    hashes.refresh()
    return {"repositories": {name: _repository(os.path.join(top, name), hashes) for name in _names(top)}}


def _repository(here: str, hashes: Hashes) -> dict[str, object]:
    names = _names(os.path.join(here, CURRENT))
    return {"load_models": load_models(here), "models": {name: _guarded(here, name, hashes) for name in names}}


def _guarded(here: str, name: str, hashes: Hashes) -> dict[str, object]:
    """One model; one that cannot be read does not hide the others."""
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
    directory = link_target(path)
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
    """The text of a model's config, so that differences can be shown field by field; None if it is not text."""
    if size > LONGEST_TEXT:
        return {}
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return {"text": file.read(LONGEST_TEXT)}
    except ValueError:
        return {}


def _names(directory: str) -> list[str]:
    """What lies in a directory; nothing if there is none. Missing permission is an error, not hidden."""
    try:
        return sorted(name for name in os.listdir(directory) if not name.startswith("."))
    except FileNotFoundError:
        return []
