"""One YAML file, read by YAML 1.2's rules and within bounds: its values, and where each was written."""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

from gpuplan.planfile.yamlsyntax import (
    CORE,
    INVALID,
    MAP,
    MAX_DEPTH,
    MERGE,
    SEQ,
    TOO_MUCH,
    Loader,
    TooMuch,
    construct,
    sentence,
)
from gpuplan.types.diagnostic import Diagnostic, Location, Problem

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


MAX_EXPANDED = 200_000
"""Values after aliases and merge keys are followed."""
_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")


def build(file: str, root: Node, foreign_tags: Collection[str]) -> Document:
    """The document of a composed file.

    Raises:
        Problem: with everything in it that is not plain data.
    """
    return _Builder(file, frozenset(foreign_tags)).document(root)


def location_of(file: str, mark: yaml.Mark | None) -> Location:
    """Lines and columns from 1 instead of from 0."""
    return Location(file, mark.line + 1, mark.column + 1) if mark else Location(file)


class _Builder:
    """Turns nodes into values; follows aliases and merge keys, and counts what that gives."""

    def __init__(self, file: str, foreign_tags: frozenset[str]) -> None:
        self._result = Document(file)
        self._foreign = foreign_tags
        self._faults: list[Diagnostic] = []
        self._count = 0

    def document(self, root: Node) -> Document:
        self._result.data = self._value(root, ())
        if self._faults:
            raise Problem(sorted(self._faults, key=by_place))
        return self._result

    def _fault(self, summary: str, node: Node, detail: str, fix: str = "") -> None:
        self._faults.append(Diagnostic(summary, detail, fix, location_of(self._result.file, node.start_mark)))

    def _value(self, node: Node, path: Where) -> object:
        self._count += 1
        if self._count > MAX_EXPANDED or len(path) > MAX_DEPTH:
            detail = "Its aliases or merge keys expand to too many values, or refer to themselves."
            raise Problem([*self._faults, Diagnostic(TOO_MUCH, detail, where=self._result.at(path[:1]))])
        self._result.values[path] = location_of(self._result.file, node.start_mark)
        if node.tag in self._foreign:
            self._result.tags[path] = node.tag
            return str(node.value) if isinstance(node, ScalarNode) else None
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        if node.tag not in (MAP, SEQ):
            self._fault("Unsupported YAML tag", node, f"{node.tag} is not plain data.", "Remove the tag.")
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        return [self._item(item, (*path, index)) for index, item in enumerate(node.value)]

    def _item(self, node: Node, path: Where) -> object:
        self._result.keys[path] = location_of(self._result.file, node.start_mark)
        return self._value(node, path)

    def _scalar(self, node: ScalarNode, path: Where) -> object:
        try:
            value = construct(node.tag, node.value)
        except KeyError:
            self._fault("Unsupported YAML tag", node, f"{node.tag} is not plain data.", "Remove the tag.")
            return None
        except ValueError as error:
            self._fault(INVALID, node, f"{error}.", "Remove the tag, or correct the value.")
            return None
        if not isinstance(value, str):
            self._result.texts[path] = node.value
        elif _UNSENDABLE.search(value):
            self._fault(INVALID, node, "The text contains a NUL character or an unpaired surrogate.", "Remove it.")
        return value

    def _mapping(self, node: MappingNode, path: Where) -> dict[str, object]:
        own: dict[str, tuple[Node, Node]] = {}
        merged: dict[str, tuple[Node, Node]] = {}
        for key, value in node.value:
            if key.tag == MERGE:
                for name, pair in self._merged(value):
                    merged.setdefault(name, pair)
            elif (text := self._key(key)) is not None:
                self._once(text, key, own)
                own[text] = (key, value)
        result: dict[str, object] = {}
        for name, (key, value) in {**merged, **own}.items():
            inside = (*path, name)
            self._result.keys[inside] = location_of(self._result.file, key.start_mark)
            result[name] = self._value(value, inside)
        return result

    def _once(self, name: str, key: Node, seen: dict[str, tuple[Node, Node]]) -> None:
        if name in seen:
            first = location_of(self._result.file, seen[name][0].start_mark)
            detail = f"{name!r} is already set at {first}."
            self._fault("Duplicate key", key, detail, "Remove one of the two.")

    def _key(self, node: Node) -> str | None:
        if isinstance(node, ScalarNode) and node.tag in CORE and node.value and not _UNSENDABLE.search(node.value):
            return str(node.value)
        self._fault(
            "Key is not text", node, "A key must be one line of text.", "Write KEY: VALUE; quote the key if needed."
        )
        return None

    def _merged(self, node: Node, depth: int = 0) -> Iterator[tuple[str, tuple[Node, Node]]]:
        """The entries that a merge key brings, the ones that hold first."""
        self._count += 1
        if self._count > MAX_EXPANDED or depth > MAX_DEPTH:
            detail = "Its merge keys expand to too many values, or refer to themselves."
            where = location_of(self._result.file, node.start_mark)
            raise Problem([*self._faults, Diagnostic(TOO_MUCH, detail, where=where)])
        if isinstance(node, MappingNode):
            for key, value in node.value:
                if key.tag != MERGE and (name := self._key(key)) is not None:
                    self._count += 1
                    yield name, (key, value)
            for key, value in node.value:
                if key.tag == MERGE:
                    yield from self._merged(value, depth + 1)
        elif isinstance(node, ScalarNode):
            self._fault("Invalid merge key", node, "<<: takes a mapping or a list of mappings.")
        else:
            for item in node.value:
                yield from self._merged(item, depth + 1)


MAX_BYTES = 4 * 1024 * 1024
_UNREADABLE = "Cannot read file"


def read_document(file: str, foreign_tags: Collection[str] = ()) -> Document:
    """Read one YAML document.

    Raises:
        Problem: the file cannot be read, is too large, is not YAML, or holds what is not plain data: all such faults.
    """
    text = read_text(file)
    root = _compose(file, text)
    if root is None:
        where = Location(file)
        raise Problem(Diagnostic("Empty file", f"{file} contains only comments or blank lines.", where=where))
    result = build(file, root, foreign_tags)
    result.lines = tuple(text.split("\n"))
    return result


def _compose(file: str, text: str) -> Node | None:
    try:
        loader = Loader(text)
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        where = Location(file, before.count("\n") + 1, error.position - before.rfind("\n"))
        detail = f"The character U+{ord(text[error.position]):04X} is not allowed in YAML."
        raise Problem(Diagnostic(INVALID, detail, "Remove it.", where)) from None
    try:
        return loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        detail, fix = sentence(error)
        raise Problem(Diagnostic(INVALID, detail, fix, location_of(file, error.problem_mark))) from None
    except TooMuch as error:
        raise Problem(Diagnostic(TOO_MUCH, error.sentence, where=location_of(file, error.mark))) from None
    except (ValueError, OverflowError):  # PyYAML converts escapes and directives without looking at their size
        detail = "A number in an escape or directive is too large."
        raise Problem(Diagnostic(INVALID, detail, where=location_of(file, loader.get_mark()))) from None
    finally:
        loader.dispose()


def read_text(file: str) -> str:
    """The whole file as text.

    Raises:
        Problem: it cannot be read, is larger than 4 MiB, or is not UTF-8.
    """
    where = Location(file)
    try:
        with Path(file).open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise Problem(Diagnostic(_UNREADABLE, f"{file}: {error.strerror or error}.", where=where)) from None
    except ValueError:
        raise Problem(Diagnostic(_UNREADABLE, "A file name cannot hold a NUL character.")) from None
    if len(content) > MAX_BYTES:
        raise Problem(Diagnostic(TOO_MUCH, f"{file} is larger than {MAX_BYTES >> 20} MiB.", where=where))
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise Problem(Diagnostic(_UNREADABLE, f"{file} is UTF-16.", "Save it as UTF-8.", where))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        detail = f"{file} is not UTF-8: byte 0x{content[error.start]:02x} in line {line}."
        raise Problem(Diagnostic(_UNREADABLE, detail, "Save it as UTF-8.", Location(file, line, 1))) from None
