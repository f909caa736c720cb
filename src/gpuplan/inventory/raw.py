"""What an inventory file states, before variables are inherited: groups, hosts, and the variables that concern us."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpuplan.inventory.pattern import PatternError, expand
from gpuplan.types.diagnostic import Diagnostic, Location

MOST_HOSTS = 20_000


@dataclass(frozen=True)
class Stated:
    """One variable's value and where it stands."""

    value: object
    where: Location
    text: str | None = None
    """What was written, where that is one scalar."""
    tag: str = ""
    """A tag of Ansible's own, such as ``!vault``."""


Variables = dict[str, Stated]


@dataclass
class Group:
    """One group as the file states it, in one place or in several."""

    where: Location
    hosts: dict[str, None] = field(default_factory=dict)
    children: dict[str, None] = field(default_factory=dict)
    variables: Variables = field(default_factory=dict)


@dataclass
class Raw:
    """A whole inventory file."""

    file: str
    groups: dict[str, Group] = field(default_factory=dict)
    hosts: dict[str, Variables] = field(default_factory=dict)
    places: dict[str, Location] = field(default_factory=dict)
    """Where each host stands first."""
    faults: list[Diagnostic] = field(default_factory=list)

    def group(self, name: str, where: Location) -> Group:
        """The group of that name, made where this is the first word of it."""
        return self.groups.setdefault(name, Group(where))

    def add_hosts(self, pattern: str, group: str, variables: Variables, where: Location) -> None:
        """All hosts of a pattern such as ``gpu-a[01:16]:2222``, as members of the group."""
        try:
            names, port = expand(pattern, MOST_HOSTS)
        except PatternError as error:
            self.fault("A host pattern is not valid", f"{pattern!r} {error}.", error.fix, where)
            return
        if len(self.hosts) + len(names) > MOST_HOSTS:
            self.fault("The inventory is too large", f"It names more than {MOST_HOSTS} hosts.", "Split it.", where)
            return
        if port:
            variables = {"ansible_port": Stated(int(port), where, port), **variables}
        for name in names:
            self.group(group, where).hosts[name] = None
            self.places.setdefault(name, where)
            self.hosts.setdefault(name, {}).update(variables)

    def fault(self, summary: str, detail: str, fix: str, where: Location) -> None:
        """Keep one fault; all are told together."""
        self.faults.append(Diagnostic(summary, detail, fix, where))


def concerns_us(name: str) -> bool:
    """True for the variables that say how a node is reached; all others are Ansible's alone."""
    return name.startswith(("ansible_", "gpuplan_"))


def ours(variables: Iterable[tuple[str, Stated]]) -> Variables:
    """Only the variables that concern us; a later one of the same name wins."""
    return {name: stated for name, stated in variables if concerns_us(name)}
