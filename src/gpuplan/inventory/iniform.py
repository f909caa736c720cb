"""Ansible's INI inventory: [group], [group:children], [group:vars], and variables on a host's own line."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Callable, Iterator

from gpuplan.inventory.raw import Raw, Stated, Variables, concerns_us, ours
from gpuplan.types.diagnostic import Location

_SECTION = re.compile(r"^\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?$")
_GROUP = re.compile(r"^([^:\]\s]+)\s*(?:#.*)?$")
_LONGEST = 65536
"""Characters of a line that are read; a simulated node's hardware takes a few hundred."""


def read_ini(file: str, text: str) -> Raw:
    """What the file states; faults are kept in the result."""
    reader = _Reader(file)
    for number, line in enumerate(text.split("\n"), 1):
        reader.line(number, line)
    reader.finish()
    return reader.raw


class _Reader:
    def __init__(self, file: str) -> None:
        self.raw = Raw(file)
        self._group = "ungrouped"
        self._take: Callable[[str, int, str], None] = self._host
        self._needed: dict[str, tuple[str, Location]] = {}
        """Groups that must be declared somewhere → by which section, and where."""
        self._declared = {"all", "ungrouped"}

    def line(self, number: int, line: str) -> None:
        content = line.strip()
        if not content or content[0] in "#;":
            return
        where = self._at(number, line, content[:1])
        if len(content) > _LONGEST:
            self.raw.fault("A line is too long", f"It has more than {_LONGEST} characters.", "", where)
        elif match := _SECTION.match(content):
            self._section(match[1], match[2] or "hosts", where)
        elif content.startswith("[") and content.endswith("]"):
            detail = f"{content!r} is not a section: a name has no blanks."
            self.raw.fault("A section is not valid", detail, "Write [NAME], [NAME:children] or [NAME:vars].", where)
        else:
            self._take(content, number, line)

    def finish(self) -> None:
        """Groups that are only spoken of must be declared by a section of their own."""
        for name, (section, where) in self._needed.items():
            if name not in self._declared:
                detail = f"[{section}] names the group {name}, which no section declares."
                self.raw.fault(
                    "A group is not declared", detail, f"Add a section [{name}], or correct the name.", where
                )

    def _section(self, name: str, kind: str, where: Location) -> None:
        takes = {"hosts": self._host, "children": self._child, "vars": self._variable}
        if kind not in takes:
            detail = f"[{name}:{kind}] is of no known kind."
            self.raw.fault(
                "A section is not valid", detail, f"Write [{name}], [{name}:children] or [{name}:vars].", where
            )
        self._group, self._take = name, takes.get(kind, self._nothing)
        self.raw.group(name, where)
        if kind == "vars":
            self._needed.setdefault(name, (f"{name}:vars", where))
        else:
            self._declared.add(name)

    def _nothing(self, content: str, number: int, line: str) -> None:
        """Lines of a section that was refused."""

    def _host(self, content: str, number: int, line: str) -> None:
        where = self._at(number, line, content[:1])
        try:
            pattern, *assignments = shlex.split(content, comments=True)
        except ValueError as error:
            self.raw.fault("A line is not valid", f"{error}.", "Close the quote.", where)
            return
        if strange := [assignment for assignment in assignments if "=" not in assignment]:
            detail = f"{strange[0]!r} is not NAME=VALUE."
            fix = "Put quotes around a value with blanks; a comment begins with '#'."
            self.raw.fault("A line is not valid", detail, fix, self._at(number, line, strange[0]))
        variables = ours(self._assigned(assignments, number, line))
        self.raw.add_hosts(pattern, self._group, variables, where)

    def _child(self, content: str, number: int, line: str) -> None:
        where = self._at(number, line, content[:1])
        if match := _GROUP.match(content):
            self.raw.group(self._group, where).children[match[1]] = None
            self.raw.group(match[1], where)
            self._needed.setdefault(match[1], (f"{self._group}:children", where))
        else:
            self.raw.fault("A line is not valid", f"{content!r} is not the name of a group.", "", where)

    def _variable(self, content: str, number: int, line: str) -> None:
        where = self._at(number, line, content[:1])
        name, equals, value = content.partition("=")
        if not equals:
            self.raw.fault("A line is not valid", f"{content!r} is not NAME = VALUE.", "", where)
            return
        found: Variables = ours(self._assigned([f"{name.strip()}={value.strip()}"], number, line))
        self.raw.group(self._group, where).variables.update(found)

    def _assigned(self, assignments: list[str], number: int, line: str) -> Iterator[tuple[str, Stated]]:
        for assignment in assignments:
            name, equals, text = assignment.partition("=")
            if equals and concerns_us(name):
                value = _literal(text)
                written = value if isinstance(value, str) else text.partition("#")[0].strip()
                yield name, Stated(value, self._at(number, line, name), written)

    def _at(self, number: int, line: str, token: str) -> Location:
        return Location(self.raw.file, number, max(line.find(token), 0) + 1)


def _literal(text: str) -> object:
    """A value of an INI inventory is a Python literal where it reads as one, else the text itself, as in Ansible."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
