"""What an inventory file states before variables are inherited: groups, hosts, and their connection variables."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from gpuplan.types.diagnostic import Diagnostic, Location

_PORT = re.compile(r"^(?P<host>(?:[^:\[\]]|\[[^\]]*\])*):(?P<port>\d+)$")
_BRACKETED = re.compile(r"^\[(?P<host>.+)\]:(?P<port>\d+)$")
_RANGE = re.compile(r"\[([^\]]*)\]")
_NAME = re.compile(r"^[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?$")


class PatternError(ValueError):
    """Says what is wrong with a pattern, as the end of a sentence, and what to do."""

    def __init__(self, reason: str, fix: str = "") -> None:
        self.fix = fix
        super().__init__(reason)


def expand_pattern(pattern: str, most: int) -> tuple[Sequence[str], str]:
    """(host names, port or ""). Ranges count or go through letters, a third number is the step, as in Ansible.

    Raises:
        PatternError: it is not a pattern, gives a name that cannot be a folder's, or more names than `most`.
    """
    match = _BRACKETED.match(pattern) or _PORT.match(pattern)
    host, port = (match["host"], match["port"]) if match else (pattern, "")
    if port and not 1 <= int(port[:6]) <= 65535:
        raise PatternError(f"has the port {port[:6]}; the highest port is 65535")
    names = tuple(islice(_names(host), most + 1))
    if len(names) > most:
        raise PatternError(f"gives more than {most} hosts")
    for name in names:
        if not _NAME.match(name) or ".." in name:
            fix = "Use letters, digits, '_', '-' and '.'; an address with colons belongs into ansible_host."
            raise PatternError(
                "is not a valid host name" if name == pattern else f"gives {name!r}, which is not a valid host name",
                fix,
            )
    return names, port


def _names(host: str) -> Iterator[str]:
    match = _RANGE.search(host)
    if match is None:
        yield host
        return
    for middle in _sequence(match[1]):
        for rest in _names(host[match.end() :]):
            yield f"{host[: match.start()]}{middle}{rest}"


def _sequence(text: str) -> Iterator[str]:
    begin, _, rest = text.partition(":")
    end, _, step = rest.partition(":")
    if not end or not re.fullmatch(r"\d{0,6}", step) or step == "0":
        raise PatternError("has an invalid range", "Write [BEGIN:END] or [BEGIN:END:STEP].")
    stride = int(step or 1)
    letters = string.ascii_letters
    if begin and begin in letters and end in letters and len(begin) == len(end) == 1:
        first, last = letters.index(begin), letters.index(end)
        if first > last:
            raise PatternError("has a range that ends before it begins")
        yield from letters[first : last + 1 : stride]
        return
    yield from _numbers(begin or "0", end, stride)


def _numbers(begin: str, end: str, stride: int) -> Iterator[str]:
    if not re.fullmatch(r"\d{1,9}", begin, re.ASCII) or not re.fullmatch(r"\d{1,9}", end, re.ASCII):
        raise PatternError("has a range that is not of numbers or letters")
    padded = len(begin) if len(begin) > 1 and begin.startswith("0") else 0
    if padded and len(end) != padded:
        raise PatternError("has a range whose ends differ in length", "Write [01:16], or [1:16].")
    if int(begin) > int(end):
        raise PatternError("has a range that ends before it begins")
    for number in range(int(begin), int(end) + 1, stride):
        yield str(number).zfill(padded)


MOST_HOSTS = 20_000


@dataclass(frozen=True)
class InventoryVariable:
    """One variable's value and where it stands."""

    value: object
    where: Location
    text: str | None = None
    """What was written, where that is one scalar."""
    tag: str = ""
    """A tag of Ansible's own, such as ``!vault``."""


Variables = dict[str, InventoryVariable]


@dataclass
class Group:
    """One group as the file states it, in one place or in several."""

    where: Location
    hosts: dict[str, None] = field(default_factory=dict)
    children: dict[str, None] = field(default_factory=dict)
    variables: Variables = field(default_factory=dict)


@dataclass
class ParsedInventory:
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
            names, port = expand_pattern(pattern, MOST_HOSTS)
        except PatternError as error:
            self.fault("Invalid host pattern", f"{pattern!r} {error}.", error.fix, where)
            return
        if len(self.hosts) + len(names) > MOST_HOSTS:
            self.fault("The inventory is too large", f"It names more than {MOST_HOSTS} hosts.", "Split it.", where)
            return
        if port:
            variables = {"ansible_port": InventoryVariable(int(port), where, port), **variables}
        for name in names:
            self.group(group, where).hosts[name] = None
            self.places.setdefault(name, where)
            self.hosts.setdefault(name, {}).update(variables)

    def fault(self, summary: str, detail: str, fix: str, where: Location) -> None:
        """Keep one fault; all are reported together."""
        self.faults.append(Diagnostic(summary, detail, fix, where))


def is_connection_variable(name: str) -> bool:
    """True for the variables that say how a node is reached; all others are Ansible's alone."""
    return name.startswith(("ansible_", "gpuplan_"))


def connection_variables(variables: Iterable[tuple[str, InventoryVariable]]) -> Variables:
    """Only the variables that concern us; a later one of the same name wins."""
    return {name: stated for name, stated in variables if is_connection_variable(name)}
