"""Reads the source directories of the models of one container: what each becomes on the node."""

from __future__ import annotations

import hashlib
import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuplan.planfile.expand import Placed, containers_on, models_on
from gpuplan.planfile.schema import Model, PlanFile
from gpuplan.planfile.sources.hashes import sha256_of
from gpuplan.planfile.sources.reader import Draft, Reader, unreadable
from gpuplan.planfile.sources.remote import credential_warnings
from gpuplan.planfile.sources.render import Layer, marked, with_layers
from gpuplan.planfile.sources.scan import CONFIG, Scan
from gpuplan.planfile.sources.server import server_of
from gpuplan.triton.lint import LintedRepository, LintResult, SilencedCheck, lint, missing_config
from gpuplan.types.diagnostic import Diagnostic, Location, Problem, Severity
from gpuplan.types.inventory import Host
from gpuplan.types.value import JsonObject


@dataclass(frozen=True)
class File:
    """One file of a model on the node: its content comes from a file beside the plan file, or is a text of ours.

    An empty directory, which is how an ensemble's version looks, is a file without content: its path ends with a slash.
    """

    sha256: str
    size: int
    origin: str | None = None
    """Path relative to the plan file's folder."""
    text: str | None = None

    def json(self) -> JsonObject:
        """The form that a spec keeps."""
        content = {"from": self.origin, "text": self.text}
        stated = {name: value for name, value in content.items() if value is not None}
        return {"sha256": self.sha256, "size": self.size, **stated}


@dataclass(frozen=True)
class Source:
    """One model as one container will have it."""

    model: str
    content: str
    """Digest of its files and its config."""
    files: Mapping[str, File]
    versions: tuple[int, ...]
    """The versions that Triton will serve."""
    parts: tuple[str, ...]
    """The models that it is composed of."""
    config: JsonObject
    """Its final config."""
    backend: str
    """The backend that serves it; empty where that is not known."""
    lacking: tuple[str, ...] = ()
    """What its config leaves to the server, in words."""


@dataclass(frozen=True)
class _Told:
    """What was read for one container."""

    sources: tuple[Source, ...]
    faults: tuple[Diagnostic, ...]
    silenced: int


def sources_on(plan: PlanFile, host: Host, container: str) -> tuple[tuple[Source, ...], tuple[Diagnostic, ...]]:
    """The models of one container of this host, and all that the checks say; a model with an error is left out.

    A source is read once for each plan file that was loaded: all nodes of one run get the same files.
    """
    home = next((placed for placed in containers_on(plan, host) if placed.name == container), None)
    if home is None:
        return (), ()
    known = _read_before(plan)
    key = (str(home.path[1]), home.name, home.container.gpus)
    if key not in known:
        known[key] = _read(plan, home, models_on(plan, host, container))
    return known[key].sources, known[key].faults


def silenced(plan: PlanFile) -> int:
    """How many findings the plan file's `ignore_checks` held back, as far as its sources were read."""
    return sum(told.silenced for told in _read_before(plan).values())


Models = tuple[tuple[str, Model], ...]
"""The models of one container, as the plan file states them."""
_Key = tuple[str, str, tuple[str, ...]]
"""A container's name in the plan file, its own on the node, and its GPUs."""
_KNOWN: dict[int, dict[_Key, _Told]] = {}


def _read_before(plan: PlanFile) -> dict[_Key, _Told]:
    """What was read for this plan file; forgotten with it."""
    if id(plan) not in _KNOWN:
        _KNOWN[id(plan)] = {}
        weakref.finalize(plan, _KNOWN.pop, id(plan))
    return _KNOWN[id(plan)]


@dataclass(frozen=True)
class _Judged:
    """The models of one container that could be read, and what was found."""

    drafts: Mapping[str, Draft]
    unread: tuple[Diagnostic, ...]
    verdict: LintResult

    def of(self, name: str) -> tuple[Diagnostic, ...]:
        """What there is to say of one model."""
        return (*self.drafts[name].faults, *self.verdict.models.get(name, ()))


def judged(plan: PlanFile, host: Host, home: Placed) -> tuple[tuple[Diagnostic, ...], int]:
    """All that the checks say of the models of one container, and how much was silenced; no file is hashed."""
    found = _judge(plan, home, models_on(plan, host, home.name))
    said = (each for name in found.drafts for each in found.of(name))
    return (*found.unread, *said, *found.verdict.server), found.verdict.silenced


def _judge(plan: PlanFile, home: Placed, stated: Models) -> _Judged:
    """Of models without a source nothing is seen from here."""
    models = tuple((name, model) for name, model in stated if model.source is not None)
    drafts: dict[str, Draft] = {}
    faults: list[Diagnostic] = [*credential_warnings(plan, home)]
    for name, model in models:
        try:
            drafts[name] = Reader(plan, name, model, home).read()
        except Problem as problem:
            faults.extend(problem.diagnostics)
    subjects = {name: draft.subject for name, draft in drafts.items()}
    unread = frozenset(name for name, _ in models if name not in drafts)
    verdict = lint(LintedRepository(server_of(plan, home), subjects, unread), _silences(plan, models))
    return _Judged(drafts, tuple(faults), verdict)


def _read(plan: PlanFile, home: Placed, models: Models) -> _Told:
    found = _judge(plan, home, models)
    sources: list[Source] = []
    faults = [*found.unread]
    for name, draft in found.drafts.items():
        told = [*found.of(name)]
        if not any(each.severity is Severity.ERROR for each in told):
            try:
                sources.append(_source(plan, draft))
            except Problem as problem:
                told.extend(problem.diagnostics)
        faults.extend(told)
    return _Told(tuple(sources), (*faults, *found.verdict.server), found.verdict.silenced)


def _silences(plan: PlanFile, models: Models) -> list[SilencedCheck]:
    return [
        SilencedCheck(each.id, each.reason, name, plan.where("models", name, "ignore_checks", number))
        for name, model in models
        for number, each in enumerate(model.ignore_checks)
    ]


def _source(plan: PlanFile, draft: Draft) -> Source:
    here = Location("")
    named = with_layers(draft.config, [Layer({"name": draft.subject.name}, lambda *_: here)])
    files = _files(plan, draft.scan)
    content, rendered = marked(named, {path: file.sha256 for path, file in files.items()})
    files[CONFIG] = _of_text(rendered)
    subject = draft.subject
    return Source(
        subject.name,
        content,
        dict(sorted(files.items())),
        tuple(subject.wanted),
        subject.parts(),
        subject.config,
        subject.backend,
        missing_config(subject),
    )


def _files(plan: PlanFile, found: Scan) -> dict[str, File]:
    base = Path(plan.path).parent
    files: dict[str, File] = {}
    for path, source in found.files.items():
        if path == CONFIG:
            continue
        try:
            sha256, size = sha256_of(source)
        except OSError as fault:
            raise Problem(unreadable(source, fault.strerror or str(fault))) from None
        files[path] = File(sha256, size, Path(os.path.relpath(source, base)).as_posix())
    for version in found.versions:
        if not found.below(str(version)):
            files[f"{version}/"] = File("", 0)
    return files


def _of_text(text: str) -> File:
    raw = text.encode("utf-8")
    return File(hashlib.sha256(raw).hexdigest(), len(raw), text=text)
