"""Entries: what one node has, each as a section of a plan file, before nodes that have the same are put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuplan.types.inventory import Host
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import JsonObject, canonical


@dataclass(frozen=True)
class PlanEntry:
    """One section of one node."""

    kind: str
    """``gpus``, ``containers`` or ``models``: the part of the plan file that it belongs to."""
    name: str
    """Its key there."""
    node: str
    section: JsonObject
    """Without `nodes`."""
    omitted: tuple[str, ...] = ()
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
class DiscoveredNode:
    """One node that is being described."""

    name: str
    snapshot: Snapshot
    entries: list[PlanEntry] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    served: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Container → the models that its server has loaded, for those whose models can be managed."""

    def leave_out(self, what: str, why: str) -> None:
        """Note something that has no section."""
        self.left_out.append(LeftOut(self.name, what, why))


@dataclass(frozen=True)
class PlanSection:
    """One section of the plan file, for all nodes that have it alike."""

    kind: str
    key: str
    nodes: tuple[str, ...]
    body: JsonObject
    omitted: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Discovery:
    """The plan file, before it is text."""

    name: str
    sections: tuple[PlanSection, ...]
    left_out: tuple[LeftOut, ...] = ()

    def of(self, kind: str) -> Iterator[PlanSection]:
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


# Together: nodes that have the same share a section, and what differs under one name gets another key.


def section_keys(entries: Sequence[PlanEntry]) -> Mapping[tuple[str, str], str]:
    """(node, name) → key of its section. The section that most nodes have keeps the name, others add a node's."""
    kinds: dict[str, dict[str, list[str]]] = {}
    for each in entries:
        kinds.setdefault(each.name, {}).setdefault(canonical(each.section), []).append(each.node)
    found: dict[tuple[str, str], str] = {}
    for name, groups in kinds.items():
        for number, nodes in enumerate(sorted(groups.values(), key=lambda nodes: (-len(nodes), nodes))):
            found |= {(node, name): f"{name}-{nodes[0]}" if number else name for node in nodes}
    return found


def merge_entries(entries: Sequence[PlanEntry]) -> tuple[PlanSection, ...]:
    """The sections of entries of one kind, in the order of the first that has each."""
    keys = section_keys(entries)
    groups: dict[str, list[PlanEntry]] = {}
    for each in entries:
        groups.setdefault(keys[each.node, each.name], []).append(each)
    return tuple(_section(key, group) for key, group in groups.items())


def name_node_sets(sets: Iterable[tuple[str, ...]], hosts: Sequence[Host]) -> Mapping[tuple[str, ...], str | list[str]]:
    """How a plan file names each set of nodes: by a group that is just that, else one by one."""
    groups: dict[str, set[str]] = {}
    for host in hosts:
        for group in host.groups:
            groups.setdefault(group, set()).add(host.name)
    named = {frozenset(members): group for group, members in sorted(groups.items(), key=lambda each: each[0] == "all")}
    found: dict[tuple[str, ...], str | list[str]] = {}
    for each in sets:
        alone = each[0] if len(each) == 1 else list(each)
        found[each] = alone if isinstance(alone, str) else named.get(frozenset(each), alone)
    return found


def _section(key: str, group: Sequence[PlanEntry]) -> PlanSection:
    first = group[0]
    omitted = tuple(dict.fromkeys(one for each in group for one in each.omitted))
    secrets = tuple(dict.fromkeys(one for each in group for one in each.secrets))
    renamed: JsonObject = {"container_name": first.name} if first.kind == "containers" and key != first.name else {}
    return PlanSection(
        first.kind, key, tuple(each.node for each in group), {**renamed, **first.section}, omitted, secrets
    )
