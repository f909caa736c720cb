"""A YAML file's content: plain values, and where and how each of them was written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from gpuplan.types.diagnostic import Diagnostic, Location

Where = tuple[str | int, ...]
"""A path into a document: ``("containers", "triton-cls", "gpus", 0)``."""


@dataclass
class Document:
    """A file's content. The keys of the tables are paths: ``("containers", "triton-cls", "gpus", 0)``."""

    file: str
    data: object = None
    """Mappings have text keys, always: a key 24.10 is the text “24.10”."""
    keys: dict[Where, Location] = field(default_factory=dict)
    """Where each entry begins: its key, or the list item."""
    values: dict[Where, Location] = field(default_factory=dict)
    texts: dict[Where, str] = field(default_factory=dict)
    """Plain scalars that are not text → what was written: 24.10, 0x1F, True. A place that takes text takes that."""
    lines: tuple[str, ...] = ()
    tags: dict[Where, str] = field(default_factory=dict)
    """Values with a foreign tag that the caller allowed."""

    def replace(self, path: Where, value: object) -> None:
        """Put another value at a path that the file states."""
        owner: object = self.data
        for part in path[:-1]:
            owner = below(owner, part)
        if isinstance(owner, list | dict):
            cast("dict[str | int, object]", owner)[path[-1]] = value

    def at(self, path: Where) -> Location:
        """Where the value at `path` stands, or the nearest thing around it that the file states."""
        for end in range(len(path), -1, -1):
            if found := self.values.get(path[:end]) or self.keys.get(path[:end]):
                return found
        return Location(self.file)


def dotted(path: Where) -> str:
    """A path as operators read it: ``containers.triton-cls.gpus[0]``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def by_place(diagnostic: Diagnostic) -> tuple[str, int, int]:
    """Key that sorts diagnostics by file, line and column."""
    where = diagnostic.where
    return (where.file, where.line, where.column) if where else ("", 0, 0)


def below(value: object, part: str | int) -> object:
    """The entry of a mapping or list.

    Raises:
        LookupError: it has none of that name or number.
    """
    if isinstance(value, dict) or (isinstance(value, list) and isinstance(part, int)):
        return cast("dict[str | int, object]", value)[part]
    raise LookupError(part)
