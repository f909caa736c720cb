"""From the inventory's path to an `Inventory`: group inheritance, group_vars/ and host_vars/ included."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from gpuplan.inventory.connection import HostReader
from gpuplan.inventory.formats import FOREIGN_TAGS, read_ini, read_yaml, stated_variables
from gpuplan.inventory.groups import ParsedInventory, Variables
from gpuplan.planfile.yamlfile import read_document, read_text
from gpuplan.types.diagnostic import Diagnostic, Location, Problem, Severity
from gpuplan.types.inventory import Host, Inventory


class Hierarchy:
    """The groups of an inventory as a graph; `all` holds every group, `ungrouped` every host that is in no other."""

    def __init__(self, raw: ParsedInventory) -> None:
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


_SUFFIXES = ("", ".yml", ".yaml", ".json")
_MOST_FILES = 1000


class VariableFolders:
    """Reads the variables of one group or host after another; faults and warnings are kept."""

    def __init__(self, inventory: str) -> None:
        folder = Path(inventory).parent
        self._folders = {kind: folder / kind for kind in ("group_vars", "host_vars") if (folder / kind).is_dir()}
        self.faults: list[Diagnostic] = []

    def group(self, name: str) -> Variables:
        """What group_vars/NAME says."""
        return self._variables("group_vars", name)

    def host(self, name: str) -> Variables:
        """What host_vars/NAME says."""
        return self._variables("host_vars", name)

    def _variables(self, kind: str, name: str) -> Variables:
        result: Variables = {}
        if kind not in self._folders or not name or "/" in name or name in (".", ".."):
            return result
        for suffix in _SUFFIXES:
            for file in self._files(self._folders[kind] / f"{name}{suffix}"):
                result.update(self._read(file))
        return result

    def _files(self, path: Path) -> Iterator[Path]:
        """The file itself, or all files below the folder, in order; hidden ones and backups are left out."""
        if path.is_file():
            yield path
        elif path.is_dir() and not path.suffix:
            inside = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
            visible = [file for file in inside if not file.name.startswith(".") and not file.name.endswith("~")]
            yield from visible[:_MOST_FILES]

    def _read(self, file: Path) -> Variables:
        try:
            with file.open("rb") as stream:
                encrypted = stream.read(15) == b"$ANSIBLE_VAULT;"
        except OSError as error:
            detail = f"{file}: {error.strerror}."
            self.faults.append(Diagnostic("Cannot read file", detail, where=Location(str(file))))
            return {}
        if encrypted:
            detail = f"{file} is encrypted with Ansible Vault; its connection variables are ignored."
            where = Location(str(file))
            self.faults.append(Diagnostic("Variable file ignored", detail, where=where, severity=Severity.WARNING))
            return {}
        try:
            return stated_variables(read_document(str(file), FOREIGN_TAGS), ())
        except Problem as problem:
            self.faults.extend(one for one in problem.diagnostics if one.summary != "Empty file")
            return {}


_YAML_LINE = re.compile(r"^(?:---|%YAML|\{|['\"]?[\w.-]+['\"]?:(?:\s|$))")


def load_inventory(path: str) -> Inventory:
    """Read an inventory file in Ansible's YAML or INI form, with group_vars/ and host_vars/ next to it.

    Variables win as in Ansible: those of the file for `all`, for parent groups, for child groups; then group_vars/ in
    the same order; then the host's own in the file; then host_vars/.

    Raises:
        Problem: with every fault that could be found; exit code 1.
    """
    raw = _read(path)
    hierarchy = Hierarchy(raw)
    if hierarchy.cycle:
        detail = f"Groups contain one another: {' → '.join(hierarchy.cycle)}."
        raw.fault("Group contains itself", detail, "Remove one of the children.", raw.groups[hierarchy.cycle[0]].where)
        raise Problem(raw.faults)
    groups_of = {name: hierarchy.groups_of(name) for name in raw.hosts}
    hosts, problems = _hosts(raw, groups_of)
    errors = [one for one in (*raw.faults, *problems) if one.severity is Severity.ERROR]
    if not raw.hosts and not errors:
        errors.append(Diagnostic("Empty inventory", f"{path} contains no host.", where=Location(path)))
    if errors:
        raise Problem(errors)
    warnings = tuple(one for one in problems if one.severity is Severity.WARNING)
    return Inventory(hosts, hierarchy.members(groups_of), warnings)


def _read(path: str) -> ParsedInventory:
    if Path(path).is_dir():
        detail = f"{path} is a directory; gpuplan reads one inventory file."
        raise Problem(Diagnostic("The inventory is a directory", detail, "Name the file in it.", Location(path)))
    text = read_text(path)
    if text.startswith("#!"):
        detail = f"{path} is a program; gpuplan does not run inventory programs."
        fix = f"Write its hosts to a file: ansible-inventory -i {path} --list --yaml --output FILE."
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


def _hosts(raw: ParsedInventory, groups_of: dict[str, tuple[str, ...]]) -> tuple[tuple[Host, ...], list[Diagnostic]]:
    folders = VariableFolders(raw.file)
    names = {"all", *(group for groups in groups_of.values() for group in groups)}
    in_folders = {name: folders.group(name) for name in sorted(names)}
    reader = HostReader()
    hosts: list[Host] = []
    for name, own in raw.hosts.items():
        chain = ("all", *groups_of[name])
        merged: Variables = {}
        for group in chain:
            merged.update(raw.groups[group].variables if group in raw.groups else {})
        for group in chain:
            merged.update(in_folders[group])
        merged.update(own)
        merged.update(folders.host(name))
        hosts.append(reader.host(name, merged, groups_of[name], raw.places[name]))
    return tuple(hosts), [*folders.faults, *reader.faults.values()]
