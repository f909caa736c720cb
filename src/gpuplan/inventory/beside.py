"""The folders group_vars/ and host_vars/ beside an inventory, from which Ansible takes variables too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuplan.inventory.raw import Variables
from gpuplan.inventory.yamlform import FOREIGN_TAGS, stated_variables
from gpuplan.planfile.yamlfile import read_document
from gpuplan.types.diagnostic import Diagnostic, Location, Problem, Severity

_SUFFIXES = ("", ".yml", ".yaml", ".json")
_MOST_FILES = 1000


class Beside:
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
            self.faults.append(Diagnostic("The file cannot be read", detail, where=Location(str(file))))
            return {}
        if encrypted:
            detail = f"{file} is encrypted with Ansible Vault; what it says of connections is not honoured."
            where = Location(str(file))
            self.faults.append(
                Diagnostic("A file of variables is passed over", detail, where=where, severity=Severity.WARNING)
            )
            return {}
        try:
            return stated_variables(read_document(str(file), FOREIGN_TAGS), ())
        except Problem as problem:
            self.faults.extend(one for one in problem.diagnostics if one.summary != "The file is empty")
            return {}
