"""Entries: what one node has, each as a section of a plan file, before nodes that have the same are put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import JsonObject


@dataclass(frozen=True)
class Entry:
    """One section of one node."""

    kind: str
    """``gpus``, ``containers`` or ``models``: the part of the plan file that it belongs to."""
    name: str
    """Its key there."""
    node: str
    section: JsonObject
    """Without `nodes`."""
    unsaid: tuple[str, ...] = ()
    """What a plan file does not say of it."""
    secrets: tuple[str, ...] = ()
    """Variables whose values are left out."""


@dataclass(frozen=True)
class LeftOut:
    """Something of a node that has no section, and why."""

    node: str
    what: str
    why: str


@dataclass
class Node:
    """One node that is being described."""

    name: str
    snapshot: Snapshot
    entries: list[Entry] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    served: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Container → the models that its server has loaded, for those whose models can be managed."""

    def leave_out(self, what: str, why: str) -> None:
        """Note something that has no section."""
        self.left_out.append(LeftOut(self.name, what, why))


@dataclass(frozen=True)
class Section:
    """One section of the plan file, for all nodes that have it alike."""

    kind: str
    key: str
    nodes: tuple[str, ...]
    body: JsonObject
    unsaid: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Discovery:
    """The plan file, before it is text."""

    name: str
    sections: tuple[Section, ...]
    left_out: tuple[LeftOut, ...] = ()

    def of(self, kind: str) -> Iterator[Section]:
        """The sections of one part."""
        return (each for each in self.sections if each.kind == kind)

    def document(self, nodes: Mapping[tuple[str, ...], str | list[str]]) -> JsonObject:
        """The plan file as data; `nodes` are the words for sets of nodes."""
        parts: dict[str, JsonObject] = {
            kind: {each.key: {"nodes": nodes[each.nodes], **each.body} for each in self.of(kind)}
            for kind in ("gpus", "containers")
        }
        parts["models"] = {each.key: each.body for each in self.of("models")}
        return {"version": 1, "name": self.name, **{kind: part for kind, part in parts.items() if part}}
