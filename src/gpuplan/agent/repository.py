"""A Triton container's model repository: directories of hard links to blobs, switched in one rename."""

from __future__ import annotations

import os
from collections.abc import Mapping

from . import paths
from .blobs import Blobs
from .failure import Failure
from .files import OPEN, make_directory, remove_tree, sync_directory, walk, write_atomically
from .generations import BUILDING, CONTENT, CURRENT, PREVIOUS, VERSIONS, Generations

FLAG = "--load-model="


class Repositories:
    """All repositories below a root. Model names and paths are checked before they become one."""

    def __init__(self, root: str, blobs: Blobs) -> None:
        self._root = root
        self._blobs = blobs

    def prepare(self, plan: str, container: str) -> dict[str, object]:
        """Make the empty repository, where it is not there; its path is what the container mounts."""
        here = paths.repository(self._root, plan, container)
        for name in (CURRENT, PREVIOUS, VERSIONS):
            make_directory(os.path.join(here, name), OPEN, self._root)
        if not os.path.exists(_load_models(here)):
            write_atomically(_load_models(here), b"", 0o644)
        return {"path": here}

    def switch(
        self, plan: str, container: str, model: str, content: str, files: Mapping[str, object]
    ) -> dict[str, object]:
        """Build a directory of the files and make it the model's in one rename; the one before it stands by.

        Raises Failure `not_found` where a blob is missing or damaged; then nothing has changed.
        """
        paths.checked_name(model, "model")
        paths.checked_digest(content)
        wanted = {paths.checked_file(path): _blob(path, digest) for path, digest in files.items()}
        gone = sorted({digest for digest in wanted.values() if digest and not self._blobs.intact(digest)})
        if gone:
            raise Failure("not_found", "content is missing: {}".format(", ".join(gone)))
        self.prepare(plan, container)
        here = paths.repository(self._root, plan, container)
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

        Raises Failure `not_found` where there is no previous one; then nothing has changed.
        """
        generations = self._generations(plan, container, model)
        with self._blobs.relinking(generations.directories()):
            if not generations.go_back():
                raise Failure("not_found", "no previous files of {} are kept".format(model))
        return {"content": generations.content(generations.current())}

    def remove(self, plan: str, container: str, model: str | None) -> dict[str, object]:
        """Remove one model's files, or the whole repository."""
        here = paths.repository(self._root, plan, container)
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
        paths.checked_name(model, "model")
        here = paths.repository(self._root, plan, container)
        if not wanted and not os.path.isdir(here):
            return {"load_models": []}
        models = [each for each in load_models(here) if each != model] + [model] * wanted
        text = "".join("{}{}\n".format(FLAG, each) for each in sorted(models))
        make_directory(here, OPEN, self._root)
        write_atomically(_load_models(here), text.encode(), 0o644)
        return {"load_models": sorted(models)}

    def _generations(self, plan: str, container: str, model: str) -> Generations:
        return Generations(paths.repository(self._root, plan, container), paths.checked_name(model, "model"))

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
                    os.link(paths.blob(self._root, digest), target)
            except (FileExistsError, NotADirectoryError) as error:
                raise Failure("invalid", "{} is a file and a directory".format(path)) from error
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
    return paths.checked_digest(digest) if digest else ""


def _load_models(here: str) -> str:
    return os.path.join(here, "load-models")
