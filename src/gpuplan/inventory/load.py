"""From the inventory's path to an `Inventory`, or to everything that is wrong with it."""

from __future__ import annotations

import re
from pathlib import Path

from gpuplan.inventory.beside import Beside
from gpuplan.inventory.connection import Reader
from gpuplan.inventory.hierarchy import Hierarchy
from gpuplan.inventory.iniform import read_ini
from gpuplan.inventory.raw import Raw, Variables
from gpuplan.inventory.yamlform import read_yaml
from gpuplan.planfile.yamlfile import read_text
from gpuplan.types.diagnostic import Diagnostic, Location, Problem, Severity
from gpuplan.types.inventory import Host, Inventory

_YAML_LINE = re.compile(r"^(?:---|%YAML|\{|['\"]?[\w.-]+['\"]?:(?:\s|$))")


def load_inventory(path: str) -> Inventory:
    """Read an inventory file in Ansible's YAML or INI form, with group_vars/ and host_vars/ beside it.

    Variables win as in Ansible: those of the file for `all`, for parent groups, for child groups; then group_vars/ in
    the same order; then the host's own in the file; then host_vars/.

    Raises:
        Problem: with every fault that could be found; exit code 1.
    """
    raw = _read(path)
    hierarchy = Hierarchy(raw)
    if hierarchy.cycle:
        detail = f"Groups contain one another: {' → '.join(hierarchy.cycle)}."
        raw.fault(
            "A group contains itself", detail, "Remove one of the children.", raw.groups[hierarchy.cycle[0]].where
        )
        raise Problem(raw.faults)
    groups_of = {name: hierarchy.groups_of(name) for name in raw.hosts}
    hosts, told = _hosts(raw, groups_of)
    errors = [one for one in (*raw.faults, *told) if one.severity is Severity.ERROR]
    if not raw.hosts and not errors:
        errors.append(Diagnostic("The inventory is empty", f"{path} names no host.", where=Location(path)))
    if errors:
        raise Problem(errors)
    warnings = tuple(one for one in told if one.severity is Severity.WARNING)
    return Inventory(hosts, hierarchy.members(groups_of), warnings)


def _read(path: str) -> Raw:
    if Path(path).is_dir():
        detail = f"{path} is a directory; gpuplan reads one inventory file."
        raise Problem(Diagnostic("The inventory is a directory", detail, "Name the file in it.", Location(path)))
    text = read_text(path)
    if text.startswith("#!"):
        detail = f"{path} is a program; gpuplan reads inventories and does not run them."
        fix = f"Write what it answers to a file: ansible-inventory -i {path} --list --yaml --output FILE."
        raise Problem(Diagnostic("The inventory is a program", detail, fix, Location(path)))
    suffix = Path(path).suffix.lower()
    if suffix in (".yaml", ".yml", ".json") or (suffix not in (".ini", ".cfg") and _looks_like_yaml(text)):
        return read_yaml(path)
    return read_ini(path, text)


def _looks_like_yaml(text: str) -> bool:
    """Judged by the first line that is not a comment; a file name may say neither."""
    for line in text.split("\n"):
        if line.strip() and not line.lstrip().startswith(("#", ";")):
            return bool(_YAML_LINE.match(line))
    return False


def _hosts(raw: Raw, groups_of: dict[str, tuple[str, ...]]) -> tuple[tuple[Host, ...], list[Diagnostic]]:
    beside = Beside(raw.file)
    names = {"all", *(group for groups in groups_of.values() for group in groups)}
    in_folders = {name: beside.group(name) for name in sorted(names)}
    reader = Reader()
    hosts: list[Host] = []
    for name, own in raw.hosts.items():
        chain = ("all", *groups_of[name])
        merged: Variables = {}
        for group in chain:
            merged.update(raw.groups[group].variables if group in raw.groups else {})
        for group in chain:
            merged.update(in_folders[group])
        merged.update(own)
        merged.update(beside.host(name))
        hosts.append(reader.host(name, merged, groups_of[name], raw.places[name]))
    return tuple(hosts), [*beside.faults, *reader.faults.values()]
