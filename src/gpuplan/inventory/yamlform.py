"""Ansible's YAML inventory: groups with hosts, children and vars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from gpuplan.inventory.raw import Raw, Stated, Variables, concerns_us, ours
from gpuplan.planfile.document import Document, Where, dotted
from gpuplan.planfile.yamlfile import read_document
from gpuplan.types.diagnostic import Diagnostic, Problem

FOREIGN_TAGS = ("!vault", "!vault-encrypted", "!unsafe")
_SECTIONS = ("hosts", "children", "vars")


def read_yaml(file: str) -> Raw:
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
        detail = "It configures an inventory plugin of Ansible, which asks elsewhere for the nodes."
        fix = f"Write what it answers to a file: ansible-inventory -i {file} --list --yaml --output FILE."
        raise Problem(Diagnostic("The inventory is dynamic", detail, fix, document.at(("plugin",))))
    reader = _Reader(document)
    for name, section in data.items():
        reader.group(name, section, (name,))
    return reader.raw


def stated_variables(document: Document, path: Where) -> Variables:
    """The variables of the mapping at `path` that concern us."""
    value: object = document.data
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    entries = value.items() if isinstance(value, dict) else ()
    return ours((name, _stated(document, inner, (*path, name))) for name, inner in entries if concerns_us(name))


def _stated(document: Document, value: object, path: Where) -> Stated:
    text = document.texts.get(path, value if isinstance(value, str) else None)
    return Stated(value, document.at(path), text, document.tags.get(path, ""))


class _Reader:
    def __init__(self, document: Document) -> None:
        self._document = document
        self.raw = Raw(document.file)

    def group(self, name: str, section: object, path: Where) -> None:
        where = self._document.keys[path]
        group = self.raw.group(name, where)
        if section is None:
            return
        if not isinstance(section, dict):
            detail = f"{dotted(path)} is not a group: a group is a mapping with hosts, children or vars."
            self.raw.fault("A group is not valid", detail, "", self._document.at(path))
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
            self.raw.fault(
                "A group is not valid", detail, "Write NAME: instead of - NAME.", self._document.at((*path, key))
            )

    def _unknown(self, key: str, path: Where) -> None:
        close = get_close_matches(key, _SECTIONS, n=1)
        fix = f"Did you mean {close[0]}? " if close else ""
        detail = f"The group {path[-1]} has no key {key!r}."
        where = self._document.keys[(*path, key)]
        self.raw.fault("A key is unknown", detail, f"{fix}Valid here: {', '.join(_SECTIONS)}.", where)
