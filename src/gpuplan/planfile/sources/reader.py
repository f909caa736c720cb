"""Reads one model of a plan file for one container: its files, its final config, and what the checks look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpuplan.planfile.expand import Placed
from gpuplan.planfile.schema import Model, PlanFile
from gpuplan.planfile.sources.places import Places
from gpuplan.planfile.sources.render import Layer, policy, wanted_versions, with_layers
from gpuplan.planfile.sources.scan import CONFIG, HIGHEST, Scan, read_as, scan
from gpuplan.triton import model_config
from gpuplan.triton.lint import LintedModel
from gpuplan.triton.lint.files import parse
from gpuplan.types.diagnostic import Diagnostic, Location, Problem, Severity
from gpuplan.types.value import JsonObject

if TYPE_CHECKING:
    from google.protobuf.message import Message

LONGEST_CONFIG = 1024 * 1024
"""Bytes of a config.pbtxt that are read."""


@dataclass(frozen=True)
class Draft:
    """One model that could be read: what becomes of it, and what is seen before the checks."""

    subject: LintedModel
    scan: Scan
    config: Message
    """The final config, without name and mark."""
    faults: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True)
class Reader:
    """Reads one model for one container."""

    plan: PlanFile
    name: str
    model: Model
    home: Placed

    def read(self) -> Draft:
        """The model.

        Raises:
            Problem: nothing can be made of it; with all that is wrong.
        """
        found = scan(Path(self.plan.path).parent / (self.model.source or ""))
        layers, faults = self._layers()
        faults += found.faults
        file = found.root / CONFIG
        parsed = parse(config_text(found), str(file))
        faults += parsed.faults
        if parsed.message is None:
            raise Problem(faults)
        try:
            config = with_layers(parsed.message, layers)
        except Problem as problem:
            raise Problem((*faults, *problem.diagnostics)) from None
        if any(fault.severity is Severity.ERROR for fault in faults):
            raise Problem(faults)
        stated = Location(str(file)) if CONFIG in found.files else self._where("source")
        places = Places(str(file), parsed.reading, layers, lambda: stated)
        numbers = self.model.versions if isinstance(self.model.versions, tuple) else ()
        return Draft(subject(self.name, found, config, places, numbers), found, config, tuple(faults))

    def _where(self, *path: str | int) -> Location:
        return self.plan.where("models", self.name, *path)

    def _layers(self) -> tuple[Sequence[Layer], list[Diagnostic]]:
        layers = [Layer(self.model.config, partial(self._where, "config"))]
        overrides = partial(self._where, "overrides", self.home.path[1])
        layers.extend(Layer(stated, overrides) for stated in self.model.overrides.values())
        try:
            layers.append(Layer(policy(self.model.versions), lambda *_: self._where("versions")))
        except ValueError as fault:
            fix = "Write latest N, all, or a list of versions such as [1, 3]."
            return layers, [Diagnostic("Not a choice of versions", f"{fault}.", fix, self._where("versions"))]
        return layers, []


def subject(name: str, found: Scan, config: Message, places: Places, numbers: Sequence[int] = ()) -> LintedModel:
    """What the checks look at; `numbers` are the versions that a plan file asks for by number."""
    as_json = model_config.to_json(config)
    wanted = wanted_versions(as_json, found.versions)
    misread = _misread(as_json, found)
    return LintedModel(
        name, found.root, found.files, found.folders, found.versions, as_json, wanted, places, numbers, misread
    )


def _misread(config: JsonObject, found: Scan) -> Mapping[str, int]:
    taken = {folder: number for folder in found.folders if (number := read_as(folder)) is not None}
    possible = {number for number in taken.values() if abs(number) <= HIGHEST}
    served = {*wanted_versions(config, sorted(possible))} - {*found.versions}
    return {folder: number for folder, number in taken.items() if number in served or number not in possible}


def config_text(found: Scan) -> str:
    """The text of a source's config.pbtxt; empty where it has none.

    Raises:
        Problem: it cannot be read, or is too long.
    """
    if CONFIG in found.folders:
        why = "it is a directory, and a server that reads it as a config ends"
        raise Problem(unreadable(found.root / CONFIG, why, "Put the config there as a file."))
    path = found.files.get(CONFIG)
    if path is None:
        return ""
    try:
        with path.open("rb") as file:
            raw = file.read(LONGEST_CONFIG + 1)
    except OSError as fault:
        raise Problem(unreadable(path, fault.strerror or str(fault))) from None
    if len(raw) > LONGEST_CONFIG:
        raise Problem(unreadable(path, "it is longer than 1 MiB", "Take out of it what is no config."))
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as fault:
        line = raw.count(b"\n", 0, fault.start) + 1
        why = f"line {line} holds the byte 0x{raw[fault.start]:02x}, which is no text in UTF-8"
        raise Problem(unreadable(path, why, "Write it as text in UTF-8.", line)) from None


def unreadable(path: Path, why: str, fix: str = "Make it readable.", line: int = 0) -> Diagnostic:
    """A file of a model that cannot be read."""
    return Diagnostic("A model's file cannot be read", f"{path}: {why}.", fix, Location(str(path), line))
