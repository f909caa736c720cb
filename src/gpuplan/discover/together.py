"""Together: nodes that have the same share a section, and what differs under one name gets another key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpuplan.discover.entry import Entry, Section
from gpuplan.types.inventory import Host
from gpuplan.types.value import JsonObject, canonical


def keyed(entries: Sequence[Entry]) -> Mapping[tuple[str, str], str]:
    """(node, name) → key of its section. The section that most nodes have keeps the name, others add a node's."""
    kinds: dict[str, dict[str, list[str]]] = {}
    for each in entries:
        kinds.setdefault(each.name, {}).setdefault(canonical(each.section), []).append(each.node)
    found: dict[tuple[str, str], str] = {}
    for name, groups in kinds.items():
        for number, nodes in enumerate(sorted(groups.values(), key=lambda nodes: (-len(nodes), nodes))):
            found |= {(node, name): f"{name}-{nodes[0]}" if number else name for node in nodes}
    return found


def together(entries: Sequence[Entry]) -> tuple[Section, ...]:
    """The sections of entries of one kind, in the order of the first that has each."""
    keys = keyed(entries)
    groups: dict[str, list[Entry]] = {}
    for each in entries:
        groups.setdefault(keys[each.node, each.name], []).append(each)
    return tuple(_section(key, group) for key, group in groups.items())


def words(sets: Iterable[tuple[str, ...]], hosts: Sequence[Host]) -> Mapping[tuple[str, ...], str | list[str]]:
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


def _section(key: str, group: Sequence[Entry]) -> Section:
    first = group[0]
    unsaid = tuple(dict.fromkeys(one for each in group for one in each.unsaid))
    secrets = tuple(dict.fromkeys(one for each in group for one in each.secrets))
    renamed: JsonObject = {"container_name": first.name} if first.kind == "containers" and key != first.name else {}
    return Section(first.kind, key, tuple(each.node for each in group), {**renamed, **first.section}, unsaid, secrets)
