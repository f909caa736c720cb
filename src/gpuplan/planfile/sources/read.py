"""Reads single models from disk and lints them: of a plan file, or of a model repository without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpuplan.planfile.expand import PlacedContainer, models_on
from gpuplan.planfile.schema import ModelSection, PlanFile
from gpuplan.planfile.sources.config import ConfigLayer, policy, wanted_versions, with_layers
from gpuplan.planfile.sources.files import CONFIG, HIGHEST, LEFT_OUT, VERSION, SourceScan, read_as, scan
from gpuplan.triton import model_config
from gpuplan.triton.lint import LintedModel, LintedRepository, LintResult, SilencedCheck, TargetServer, lint
from gpuplan.triton.lint.files import parse
from gpuplan.triton.model_config_text import ConfigText
from gpuplan.types.diagnostic import Diagnostic, Location, Problem, Severity
from gpuplan.types.inventory import Host
from gpuplan.types.value import Json, JsonObject


@dataclass(frozen=True)
class FieldPositions:
    """Answers `where(*path)` for one model: the last layer that states a field is where it comes from."""

    file: str
    """The source's config.pbtxt."""
    reading: ConfigText
    layers: Sequence[ConfigLayer]
    otherwise: Callable[[], Location]
    """The place of what is stated nowhere."""

    def __call__(self, *path: str | int) -> Location:
        """The place of a field, or of the nearest thing around it."""
        for layer in reversed(self.layers):
            if path and _states(layer.stated, path):
                return layer.where(*path)
        if found := self.reading.place(path):
            return Location(self.file, *found)
        return self.otherwise()


def _states(stated: Mapping[str, Json], path: Sequence[str | int]) -> bool:
    """True where a layer states the field itself, or a list or scalar around it, which replaces as a whole."""
    value: Json = stated
    for name in path:
        if not isinstance(value, Mapping):
            return True
        if name not in value:
            return False
        value = value[str(name)]
    return True


if TYPE_CHECKING:
    from google.protobuf.message import Message

LONGEST_CONFIG = 1024 * 1024
"""Bytes of a config.pbtxt that are read."""


@dataclass(frozen=True)
class ModelDraft:
    """One model that could be read: what becomes of it, and what is seen before the checks."""

    subject: LintedModel
    scan: SourceScan
    config: Message
    """The final config, without name and mark."""
    faults: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True)
class ModelReader:
    """Reads one model for one container."""

    plan: PlanFile
    name: str
    model: ModelSection
    home: PlacedContainer

    def read(self) -> ModelDraft:
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
        places = FieldPositions(str(file), parsed.reading, layers, lambda: stated)
        numbers = self.model.versions if isinstance(self.model.versions, tuple) else ()
        return ModelDraft(linted_model(self.name, found, config, places, numbers), found, config, tuple(faults))

    def _where(self, *path: str | int) -> Location:
        return self.plan.where("models", self.name, *path)

    def _layers(self) -> tuple[Sequence[ConfigLayer], list[Diagnostic]]:
        layers = [ConfigLayer(self.model.config, partial(self._where, "config"))]
        overrides = partial(self._where, "overrides", self.home.path[1])
        layers.extend(ConfigLayer(stated, overrides) for stated in self.model.overrides.values())
        try:
            layers.append(ConfigLayer(policy(self.model.versions), lambda *_: self._where("versions")))
        except ValueError as fault:
            fix = "Write latest N, all, or a list of versions such as [1, 3]."
            return layers, [Diagnostic("Invalid versions", f"{fault}.", fix, self._where("versions"))]
        return layers, []


def linted_model(
    name: str, found: SourceScan, config: Message, places: FieldPositions, numbers: Sequence[int] = ()
) -> LintedModel:
    """What the checks look at; `numbers` are the versions that a plan file asks for by number."""
    as_json = model_config.to_json(config)
    wanted = wanted_versions(as_json, found.versions)
    misread = _misread(as_json, found)
    return LintedModel(
        name, found.root, found.files, found.folders, found.versions, as_json, wanted, places, numbers, misread
    )


def _misread(config: JsonObject, found: SourceScan) -> Mapping[str, int]:
    taken = {folder: number for folder in found.folders if (number := read_as(folder)) is not None}
    possible = {number for number in taken.values() if abs(number) <= HIGHEST}
    served = {*wanted_versions(config, sorted(possible))} - {*found.versions}
    return {folder: number for folder, number in taken.items() if number in served or number not in possible}


def config_text(found: SourceScan) -> str:
    """The text of a source's config.pbtxt; empty where it has none.

    Raises:
        Problem: it cannot be read, or is too long.
    """
    if CONFIG in found.folders:
        why = "it is a directory, and Triton exits if it reads it"
        raise Problem(unreadable(found.root / CONFIG, why, "Replace it with a file."))
    path = found.files.get(CONFIG)
    if path is None:
        return ""
    try:
        with path.open("rb") as file:
            raw = file.read(LONGEST_CONFIG + 1)
    except OSError as fault:
        raise Problem(unreadable(path, fault.strerror or str(fault))) from None
    if len(raw) > LONGEST_CONFIG:
        raise Problem(unreadable(path, "it is longer than 1 MiB", "Shorten the file."))
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as fault:
        line = raw.count(b"\n", 0, fault.start) + 1
        why = f"line {line} holds the byte 0x{raw[fault.start]:02x}, which is not valid UTF-8"
        raise Problem(unreadable(path, why, "Save the file as UTF-8.", line)) from None


def unreadable(path: Path, why: str, fix: str = "Make it readable.", line: int = 0) -> Diagnostic:
    """A file of a model that cannot be read."""
    return Diagnostic("Cannot read model file", f"{path}: {why}.", fix, Location(str(path), line))


def models_with_smoke(plan: PlanFile, host: Host, home: PlacedContainer) -> Mapping[str, LintedModel]:
    """The models of one container that have a `smoke` section, as its server will find them.

    One that nothing can be made of is left out: the checks say why.
    """
    found: dict[str, LintedModel] = {}
    for name, model in models_on(plan, host, home.name):
        if model.smoke is not False and model.source is not None:
            try:
                found[name] = ModelReader(plan, name, model, home).read().subject
            except Problem:
                continue
    return found


@dataclass(frozen=True)
class LintedDirectory:
    """What was found in a repository."""

    models: tuple[str, ...]
    """Those that were checked."""
    findings: tuple[Diagnostic, ...]
    silenced: int


def lint_directory(path: str, server: TargetServer, silences: tuple[SilencedCheck, ...] = ()) -> LintedDirectory:
    """Check every model of a repository. A directory that is a model itself is checked alone, in sight of its siblings.

    Raises:
        Problem: it is no directory that can be read, or holds no model.
    """
    root = Path(path)
    folders = _folders(root)
    alone = root / CONFIG in (root / name.name for name in _entries(root)) or any(
        VERSION.match(folder.name) for folder in folders
    )
    names = _folders(root.parent if root.name else root.absolute().parent) if alone else folders
    if not names:
        raise Problem(_no_models(root))
    wanted = {root.absolute().name} if alone else {folder.name for folder in names}
    subjects: dict[str, LintedModel] = {}
    faults: dict[str, list[Diagnostic]] = {}
    for folder in names:
        place = root if alone and folder.name in wanted else folder
        faults[folder.name] = []
        if (found := _model(folder.name, place, faults[folder.name])) is not None:
            subjects[folder.name] = found
    repository = LintedRepository(server, subjects, frozenset(faults) - frozenset(subjects), whole=not alone)
    return _told(lint(repository, silences), faults, wanted)


def _model(name: str, folder: Path, faults: list[Diagnostic]) -> LintedModel | None:
    found = scan(folder, outside=True)
    file = folder / CONFIG
    try:
        parsed = parse(config_text(found), str(file))
    except Problem as problem:
        faults.extend(problem.diagnostics)
        return None
    faults.extend(parsed.faults)
    if parsed.message is None:
        return None
    stated = Location(str(file if CONFIG in found.files else folder))
    return linted_model(name, found, parsed.message, FieldPositions(str(file), parsed.reading, (), lambda: stated))


def _told(verdict: LintResult, faults: dict[str, list[Diagnostic]], wanted: set[str]) -> LintedDirectory:
    names = sorted(wanted & faults.keys())
    findings = [each for name in names for each in (*faults[name], *verdict.models.get(name, []))]
    return LintedDirectory(tuple(names), (*findings, *verdict.server), verdict.silenced)


def _entries(root: Path) -> list[Path]:
    try:
        return sorted(root.iterdir())
    except OSError as fault:
        why = fault.strerror or str(fault)
        detail = f"{root} cannot be read: {why}."
        raise Problem(
            Diagnostic("Cannot read model repository", detail, "Use a directory of models.", Location(str(root)))
        ) from None


def _folders(root: Path) -> list[Path]:
    return [entry for entry in _entries(root) if entry.is_dir() and not LEFT_OUT.match(entry.name)]


def _no_models(root: Path) -> Diagnostic:
    detail = f"{root} contains no model directories."
    fix = "Use the directory that contains the model directories."
    return Diagnostic("No models in repository", detail, fix, Location(str(root)))
