"""Ansible's two inventory formats, INI and YAML."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches

from gpuplan.inventory.groups import (
    InventoryVariable,
    ParsedInventory,
    Variables,
    connection_variables,
    is_connection_variable,
)
from gpuplan.planfile.yamlfile import Document, Where, dotted, read_document
from gpuplan.types.diagnostic import Diagnostic, Location, Problem

_SECTION = re.compile(r"^\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?$")
_GROUP = re.compile(r"^([^:\]\s]+)\s*(?:#.*)?$")
_LONGEST = 65536
"""Characters of a line that are read; a simulated node's hardware takes a few hundred."""


def read_ini(file: str, text: str) -> ParsedInventory:
    """What the file states; faults are kept in the result."""
    reader = _IniReader(file)
    for number, line in enumerate(text.split("\n"), 1):
        reader.line(number, line)
    reader.finish()
    return reader.raw


class _IniReader:
    def __init__(self, file: str) -> None:
        self.raw = ParsedInventory(file)
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
            self.raw.fault("Line too long", f"It has more than {_LONGEST} characters.", "", where)
        elif match := _SECTION.match(content):
            self._section(match[1], match[2] or "hosts", where)
        elif content.startswith("[") and content.endswith("]"):
            detail = f"{content!r} is not a section: a name has no blanks."
            self.raw.fault("Invalid section", detail, "Write [NAME], [NAME:children] or [NAME:vars].", where)
        else:
            self._take(content, number, line)

    def finish(self) -> None:
        """Groups that are only spoken of must be declared by a section of their own."""
        for name, (section, where) in self._needed.items():
            if name not in self._declared:
                detail = f"[{section}] refers to the group {name}, which no section declares."
                self.raw.fault("Undeclared group", detail, f"Add a section [{name}], or correct the name.", where)

    def _section(self, name: str, kind: str, where: Location) -> None:
        takes = {"hosts": self._host, "children": self._child, "vars": self._variable}
        if kind not in takes:
            detail = f"[{name}:{kind}] is not a supported section."
            self.raw.fault("Invalid section", detail, f"Write [{name}], [{name}:children] or [{name}:vars].", where)
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
            self.raw.fault("Invalid line", f"{error}.", "Close the quote.", where)
            return
        if strange := [assignment for assignment in assignments if "=" not in assignment]:
            detail = f"{strange[0]!r} is not NAME=VALUE."
            fix = "Put quotes around a value with blanks; a comment begins with '#'."
            self.raw.fault("Invalid line", detail, fix, self._at(number, line, strange[0]))
        variables = connection_variables(self._assigned(assignments, number, line))
        self.raw.add_hosts(pattern, self._group, variables, where)

    def _child(self, content: str, number: int, line: str) -> None:
        where = self._at(number, line, content[:1])
        if match := _GROUP.match(content):
            self.raw.group(self._group, where).children[match[1]] = None
            self.raw.group(match[1], where)
            self._needed.setdefault(match[1], (f"{self._group}:children", where))
        else:
            self.raw.fault("Invalid line", f"{content!r} is not the name of a group.", "", where)

    def _variable(self, content: str, number: int, line: str) -> None:
        where = self._at(number, line, content[:1])
        name, equals, value = content.partition("=")
        if not equals:
            self.raw.fault("Invalid line", f"{content!r} is not NAME = VALUE.", "", where)
            return
        found: Variables = connection_variables(self._assigned([f"{name.strip()}={value.strip()}"], number, line))
        self.raw.group(self._group, where).variables.update(found)

    def _assigned(self, assignments: list[str], number: int, line: str) -> Iterator[tuple[str, InventoryVariable]]:
        for assignment in assignments:
            name, equals, text = assignment.partition("=")
            if equals and is_connection_variable(name):
                value = _literal(text)
                written = value if isinstance(value, str) else text.partition("#")[0].strip()
                yield name, InventoryVariable(value, self._at(number, line, name), written)

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


FOREIGN_TAGS = ("!vault", "!vault-encrypted", "!unsafe")
_SECTIONS = ("hosts", "children", "vars")


def read_yaml(file: str) -> ParsedInventory:
    """What the file states.

    Raises:
        Problem: it is not YAML, or not an inventory at all; lesser faults are kept in the result.
    """
    document = read_document(file, FOREIGN_TAGS)
    data = document.data
    if not isinstance(data, dict):
        detail = "A YAML inventory is a mapping of groups, such as all: or gpu_nodes:."
        raise Problem(Diagnostic("The file is not an inventory", detail, where=document.at(())))
    if isinstance(data.get("plugin"), str):
        detail = "It configures an inventory plugin of Ansible, which gets its hosts from elsewhere."
        fix = f"Write its hosts to a file: ansible-inventory -i {file} --list --yaml --output FILE."
        raise Problem(Diagnostic("The inventory is dynamic", detail, fix, document.at(("plugin",))))
    reader = _YamlReader(document)
    for name, section in data.items():
        reader.group(name, section, (name,))
    return reader.raw


def stated_variables(document: Document, path: Where) -> Variables:
    """The variables of the mapping at `path` that concern us."""
    value: object = document.data
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    entries = value.items() if isinstance(value, dict) else ()
    return connection_variables(
        (name, _stated(document, inner, (*path, name))) for name, inner in entries if is_connection_variable(name)
    )


def _stated(document: Document, value: object, path: Where) -> InventoryVariable:
    text = document.texts.get(path, value if isinstance(value, str) else None)
    return InventoryVariable(value, document.at(path), text, document.tags.get(path, ""))


class _YamlReader:
    def __init__(self, document: Document) -> None:
        self._document = document
        self.raw = ParsedInventory(document.file)

    def group(self, name: str, section: object, path: Where) -> None:
        where = self._document.keys[path]
        group = self.raw.group(name, where)
        if section is None:
            return
        if not isinstance(section, dict):
            detail = f"{dotted(path)} is not a group: a group is a mapping with hosts, children or vars."
            self.raw.fault("Invalid group", detail, "", self._document.at(path))
            return
        for key in section:
            if key not in _SECTIONS:
                self._unknown(key, path)
        for pattern, _ in self._entries(section, "hosts", path):
            inside = (*path, "hosts", pattern) if isinstance(section["hosts"], dict) else (*path, "hosts")
            variables = stated_variables(self._document, inside)
            self.raw.add_hosts(pattern, name, variables, self._document.keys[inside])
        for child, inner in self._entries(section, "children", path):
            group.children[child] = None
            if isinstance(section["children"], dict):
                self.group(child, inner, (*path, "children", child))
            else:
                self.raw.group(child, self._document.at((*path, "children")))
        group.variables.update(stated_variables(self._document, (*path, "vars")))

    def _entries(self, section: Mapping[str, object], key: str, path: Where) -> Iterator[tuple[str, object]]:
        """The entries of `hosts` or `children`; one name alone may stand there as text."""
        value = section.get(key)
        if isinstance(value, dict):
            yield from value.items()
        elif isinstance(value, str):
            yield value, None
        elif value is not None:
            detail = f"{dotted((*path, key))} is not a mapping; each name is a key with a ':' after it."
            self.raw.fault("Invalid group", detail, "Write NAME: instead of - NAME.", self._document.at((*path, key)))

    def _unknown(self, key: str, path: Where) -> None:
        close = get_close_matches(key, _SECTIONS, n=1)
        fix = f"Did you mean {close[0]}? " if close else ""
        detail = f"The group {path[-1]} has no key {key!r}."
        where = self._document.keys[(*path, key)]
        self.raw.fault("Unknown key", detail, f"{fix}Valid here: {', '.join(_SECTIONS)}.", where)
