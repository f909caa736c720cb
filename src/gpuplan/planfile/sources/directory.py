"""Reads a model repository on disk, or one model of it, as Triton would find it: no plan file needed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuplan.planfile.sources.places import Places
from gpuplan.planfile.sources.reader import config_text, subject
from gpuplan.planfile.sources.scan import CONFIG, LEFT_OUT, VERSION, scan
from gpuplan.triton.lint import LintedModel, LintedRepository, LintResult, SilencedCheck, TargetServer, lint
from gpuplan.triton.lint.files import parse
from gpuplan.types.diagnostic import Diagnostic, Location, Problem


@dataclass(frozen=True)
class Checked:
    """What was found in a repository."""

    models: tuple[str, ...]
    """Those that were checked."""
    findings: tuple[Diagnostic, ...]
    silenced: int


def check_directory(path: str, server: TargetServer, silences: tuple[SilencedCheck, ...] = ()) -> Checked:
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
    return subject(name, found, parsed.message, Places(str(file), parsed.reading, (), lambda: stated))


def _told(verdict: LintResult, faults: dict[str, list[Diagnostic]], wanted: set[str]) -> Checked:
    names = sorted(wanted & faults.keys())
    findings = [each for name in names for each in (*faults[name], *verdict.models.get(name, []))]
    return Checked(tuple(names), (*findings, *verdict.server), verdict.silenced)


def _entries(root: Path) -> list[Path]:
    try:
        return sorted(root.iterdir())
    except OSError as fault:
        why = fault.strerror or str(fault)
        detail = f"{root} cannot be read: {why}."
        raise Problem(
            Diagnostic("A repository cannot be read", detail, "Name a directory of models.", Location(str(root)))
        ) from None


def _folders(root: Path) -> list[Path]:
    return [entry for entry in _entries(root) if entry.is_dir() and not LEFT_OUT.match(entry.name)]


def _no_models(root: Path) -> Diagnostic:
    detail = f"{root} holds no directory, and a repository holds one for each model."
    fix = "Name the directory above those of the models."
    return Diagnostic("A repository holds no models", detail, fix, Location(str(root)))
