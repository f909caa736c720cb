"""Reads the source directories of the models of one container: what each becomes on the node."""

from __future__ import annotations

import hashlib
import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gpuplan.catalog import modelconfig
from gpuplan.catalog.triton import release_of
from gpuplan.intent.expand import Placed, containers_on, models_on
from gpuplan.intent.planfile import Model, PlanFile
from gpuplan.intent.sources.checks import Subject, check, parts_of
from gpuplan.intent.sources.hashes import sha256_of
from gpuplan.intent.sources.render import Layer, marked, policy, read_config, wanted_versions, with_layers
from gpuplan.intent.sources.scan import CONFIG, Scan, scan
from gpuplan.model.diagnostic import Diagnostic, Location, Problem
from gpuplan.model.inventory import Host
from gpuplan.model.value import JsonObject

LONGEST_CONFIG = 1024 * 1024
"""Bytes of a config.pbtxt that are read."""


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


def sources_on(plan: PlanFile, host: Host, container: str) -> tuple[tuple[Source, ...], tuple[Diagnostic, ...]]:
    """The models of one container of this host, and everything that is wrong with them; a faulty one is left out.

    A source is read once for each plan file that was loaded: all nodes of one run get the same files.
    """
    models = models_on(plan, host, container)
    home = next((placed for placed in containers_on(plan, host) if placed.name == container), None)
    if home is None:
        return (), ()
    others = frozenset(name for name, _ in models)
    sources: list[Source] = []
    faults: list[Diagnostic] = []
    read = _read_before(plan)
    for name, model in models:
        if (name, container) not in read:
            read[name, container] = _Reader(plan, name, model, home).attempt(others)
        found = read[name, container]
        if isinstance(found, Source):
            sources.append(found)
        else:
            faults.extend(found)
    return tuple(sources), tuple(faults)


Known = dict[tuple[str, str], Source | Sequence[Diagnostic]]
"""What was read of a model for a container, by their names."""
_KNOWN: dict[int, Known] = {}


def _read_before(plan: PlanFile) -> Known:
    """What was read for this plan file; forgotten with it."""
    if id(plan) not in _KNOWN:
        _KNOWN[id(plan)] = {}
        weakref.finalize(plan, _KNOWN.pop, id(plan))
    return _KNOWN[id(plan)]


@dataclass(frozen=True)
class _Reader:
    plan: PlanFile
    name: str
    model: Model
    home: Placed

    def attempt(self, others: frozenset[str]) -> Source | Sequence[Diagnostic]:
        """The source, or what is wrong with it."""
        try:
            return self._read(others)
        except Problem as problem:
            return problem.diagnostics

    def _read(self, others: frozenset[str]) -> Source:
        found = self._scan()
        text = self._config_text(found)
        layers, faults = self._layers()
        faults += found.faults
        try:
            config = with_layers(read_config(text, str(found.root / CONFIG)), layers)
        except Problem as problem:
            raise Problem((*faults, *problem.diagnostics)) from None
        as_json = modelconfig.to_json(config)
        versions = wanted_versions(as_json, found.versions)
        subject = Subject(self.name, found, text, as_json, versions, others, *self._server(), self._where)
        faults += [] if found.faults else list(check(subject))
        if faults:
            raise Problem(faults)
        named = with_layers(config, [Layer({"name": self.name}, self._where)])
        files = self._files(found)
        content, rendered = marked(named, {path: file.sha256 for path, file in files.items()})
        files[CONFIG] = _of_text(rendered)
        return Source(self.name, content, dict(sorted(files.items())), versions, parts_of(as_json))

    def _where(self, *path: str | int) -> Location:
        return self.plan.where("models", self.name, *path)

    def _server(self) -> tuple[str, str]:
        release = release_of(self.home.container.image or "")
        return self.home.name, release.name if release else ""

    def _scan(self) -> Scan:
        return scan(Path(self.plan.path).parent / self.model.source)

    def _config_text(self, found: Scan) -> str:
        path = found.files.get(CONFIG)
        if path is None:
            return ""
        try:
            with path.open("rb") as file:
                raw = file.read(LONGEST_CONFIG + 1)
            text = raw.decode("utf-8")
        except (OSError, UnicodeDecodeError) as fault:
            raise Problem(_unreadable(path, str(fault))) from None
        if len(raw) > LONGEST_CONFIG:
            raise Problem(_unreadable(path, "it is longer than 1 MiB"))
        return text

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

    def _files(self, found: Scan) -> dict[str, File]:
        base = Path(self.plan.path).parent
        files: dict[str, File] = {}
        for path, source in found.files.items():
            if path == CONFIG:
                continue
            try:
                sha256, size = sha256_of(source)
            except OSError as fault:
                raise Problem(_unreadable(source, fault.strerror or str(fault))) from None
            files[path] = File(sha256, size, Path(os.path.relpath(source, base)).as_posix())
        for version in found.versions:
            if not found.below(str(version)):
                files[f"{version}/"] = File("", 0)
        return files


def _of_text(text: str) -> File:
    raw = text.encode("utf-8")
    return File(hashlib.sha256(raw).hexdigest(), len(raw), text=text)


def _unreadable(path: Path, why: str) -> Diagnostic:
    return Diagnostic("A model's file cannot be read", f"{path}: {why}.", "Make it readable.", Location(str(path)))
