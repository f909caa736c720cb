"""Which groups a host is in, and in which order their variables win: host, child group, parent group, all."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from gpuplan.inventory.raw import Raw


class Hierarchy:
    """The groups of an inventory as a graph; `all` holds every group, `ungrouped` every host that is in no other."""

    def __init__(self, raw: Raw) -> None:
        self._raw = raw
        self._parents: dict[str, list[str]] = {name: [] for name in raw.groups}
        self._of_host: dict[str, list[str]] = {}
        for name, group in raw.groups.items():
            for child in group.children:
                self._parents.setdefault(child, []).append(name)
            for host in group.hosts:
                self._of_host.setdefault(host, []).append(name)
        self.cycle: tuple[str, ...] = ()
        """Groups that contain one another, where there are such."""
        self._depths: dict[str, int] = {}
        try:
            for name in TopologicalSorter(self._parents).static_order():
                parents = [self._depths[parent] for parent in self._parents.get(name, ()) if parent != "all"]
                self._depths[name] = 1 + max(parents, default=0)
        except CycleError as error:
            self.cycle = tuple(reversed(error.args[1]))

    def groups_of(self, host: str) -> tuple[str, ...]:
        """All groups of the host but `all`, the weakest first: by depth, then ansible_group_priority, then name."""
        found: set[str] = set()
        waiting = list(self._of_host.get(host, ()))
        while waiting:
            if (name := waiting.pop()) not in found:
                found.add(name)
                waiting.extend(self._parents.get(name, ()))
        found -= {"all", "ungrouped"}
        return tuple(sorted(found, key=self._rank)) or ("ungrouped",)

    def members(self, groups_of: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Group → its hosts and those of its children, in the order of the inventory; `all` first."""
        result: dict[str, list[str]] = {"all": [], **{name: [] for name in self._raw.groups}}
        for host, groups in groups_of.items():
            for group in ("all", *groups):
                result.setdefault(group, []).append(host)
        return {name: tuple(hosts) for name, hosts in result.items()}

    def _rank(self, name: str) -> tuple[int, int, str]:
        stated = self._raw.groups[name].variables.get("ansible_group_priority") if name in self._raw.groups else None
        text = stated.text if stated and stated.text else "1"
        priority = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 1
        return self._depths.get(name, 1), priority, name
