"""From PyYAML's nodes to a document: aliases and merge keys are followed and counted, equal keys refused."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

from gpuplan.planfile.document import Document, Where, by_place
from gpuplan.planfile.yamlsyntax import CORE, INVALID, MAP, MAX_DEPTH, MERGE, SEQ, TOO_MUCH, construct
from gpuplan.types.diagnostic import Diagnostic, Location, Problem

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
            detail = "Its aliases and merge keys give more than they should, or refer to what they are in."
            raise Problem([*self._faults, Diagnostic(TOO_MUCH, detail, where=self._result.at(path[:1]))])
        self._result.values[path] = location_of(self._result.file, node.start_mark)
        if node.tag in self._foreign:
            self._result.tags[path] = node.tag
            return str(node.value) if isinstance(node, ScalarNode) else None
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        if node.tag not in (MAP, SEQ):
            self._fault("A YAML tag is not allowed", node, f"{node.tag} is more than plain data.", "Remove the tag.")
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
            self._fault("A YAML tag is not allowed", node, f"{node.tag} is more than plain data.", "Remove the tag.")
            return None
        except ValueError as error:
            self._fault(INVALID, node, f"{error}.", "Remove the tag, or write what it says.")
            return None
        if not isinstance(value, str):
            self._result.texts[path] = node.value
        elif _UNSENDABLE.search(value):
            self._fault(
                INVALID, node, "The text holds a NUL or half a surrogate pair, which no node takes.", "Remove it."
            )
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
            detail = f"{name!r} is stated here and at {first}; only one can hold."
            self._fault("A key is stated twice", key, detail, "Remove one of the two.")

    def _key(self, node: Node) -> str | None:
        if isinstance(node, ScalarNode) and node.tag in CORE and node.value and not _UNSENDABLE.search(node.value):
            return str(node.value)
        self._fault(
            "A key is not text", node, "A key is one line of text.", "Write KEY: VALUE, in quotes where needed."
        )
        return None

    def _merged(self, node: Node, depth: int = 0) -> Iterator[tuple[str, tuple[Node, Node]]]:
        """The entries that a merge key brings, the ones that hold first."""
        self._count += 1
        if self._count > MAX_EXPANDED or depth > MAX_DEPTH:
            detail = "Its merge keys give more than they should, or refer to what they are in."
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
            self._fault("A merge key takes mappings", node, "<<: takes a mapping or a list of mappings.")
        else:
            for item in node.value:
                yield from self._merged(item, depth + 1)
