"""A model's directories in its repository: the current one, the one before it, and the steps from one to the other.

Which directory is which is said by two links, `models/MODEL` and `previous/MODEL`; each step is one rename of a link.
Whatever neither of them names is nobody's, and goes with the next step.
"""

from __future__ import annotations

import contextlib
import os
import re

from .files import OPEN, make_directory, remove_tree, sync_directory

CURRENT = "models"
PREVIOUS = "previous"
VERSIONS = "versions"
BUILDING = ".building"
CONTENT = ".content"
"""Ends the name of the file beside a directory that holds the whole digest of its content."""
_LEADS = re.compile(r"\.\./versions/([^/]+)\Z")


class Generations:
    """The directories of one model below one repository."""

    def __init__(self, here: str, model: str) -> None:
        self._here = here
        self._model = model
        self._versions = os.path.join(here, VERSIONS)
        self._pattern = re.compile(re.escape(model) + r"\.[0-9a-f]{12}\.(\d+)(?:\.content(?:\.\d+\.new)?)?\Z")

    def current(self) -> str:
        """Name of the directory that a server sees; empty where there is none of our making."""
        return self._target(CURRENT)

    def previous(self) -> str:
        """Name of the directory that stands by in case the current one does not prove itself; empty where none does."""
        found = self._target(PREVIOUS)
        return "" if found == self.current() else found

    def content(self, name: str) -> str:
        """The whole digest of a directory's content; empty where it is not known."""
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
        """Make the previous directory the current one in one rename; False where there is none."""
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
        name = target(self._link(place))
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


def target(link: str) -> str:
    """The name in versions/ that a link of ours leads to; empty for anything else."""
    try:
        match = _LEADS.match(os.readlink(link))
    except OSError:
        return ""
    return match.group(1) if match else ""


def content_of(directory: str) -> str | None:
    """The digest that was written beside a directory; None where none was."""
    try:
        with open(directory + CONTENT, encoding="ascii") as file:
            return file.read(64)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
