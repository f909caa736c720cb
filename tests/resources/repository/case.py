"""Cases as data: the desired files and the files on the node → the expected comparison."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpuplan.resources.repository.diff import diff
from gpuplan.resources.repository.read import read
from gpuplan.resources.repository.spec import ModelFiles, RepositoryFile, RepositorySpec
from gpuplan.resources.typed import encode
from gpuplan.types.address import Address
from gpuplan.types.change import Comparison
from gpuplan.types.resource import Desired, DiffContext, Record, Recorded
from gpuplan.types.snapshot import Probe, ProbeError, Snapshot
from gpuplan.types.value import JsonObject, digest
from tests.resources.told import checked

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))
Texts = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Container → model → path → text."""


@dataclass
class Case:
    """One file."""

    about: str
    desired: tuple[Desired, ...]
    snapshot: Snapshot
    record: Record
    expect: Mapping[str, Any]

    def compare(self) -> Comparison:
        """The comparison of the kind."""
        return diff(self.desired, read(self.snapshot), DiffContext("n", "prod", self.record))


def load(path: Path) -> Case:
    """Read a case; an unknown key is an error."""
    stated = checked(
        yaml.safe_load(path.read_text("utf-8")), "about desired observed unreadable error recorded without_texts expect"
    )
    recorded = desired_repositories(stated.get("recorded", {}))
    error = stated.get("error")
    probe = (
        Probe(error=ProbeError(*error))
        if error
        else observed(stated.get("observed", {}), stated.get("without_texts", False))
    )
    probe = unreadable(probe, stated.get("unreadable", {}))
    return Case(
        stated["about"],
        desired_repositories(stated.get("desired", {})),
        Snapshot("n", {"repository": probe}),
        Record("prod", "r1", resources={each.address: Recorded(each.digest, each.spec) for each in recorded}),
        stated["expect"],
    )


def desired_repositories(models_by_container: Texts) -> tuple[Desired, ...]:
    """Desired repositories of files that are given by their texts."""
    return tuple(
        Desired(
            Address("n", "repository", container),
            encode(RepositorySpec(container, {name: _model(name, files) for name, files in models.items()})),
        )
        for container, models in models_by_container.items()
    )


def observed(repositories: Texts, without_texts: bool = False) -> Probe:
    """What the node reports of such models; the texts of configs, unless `without_texts`."""
    return Probe({"repositories": {name: _repository(models, without_texts) for name, models in repositories.items()}})


def unreadable(probe: Probe, errors: Mapping[str, Mapping[str, Sequence[str]]]) -> Probe:
    """The same, with models that the node could not read: container → model → code and text."""
    if not errors:
        return probe
    value: Any = probe.value
    for container, models in errors.items():
        there = value["repositories"].setdefault(container, {"load_models": [], "models": {}})
        there["models"] |= {name: {"error": {"code": code, "text": text}} for name, (code, text) in models.items()}
    return probe


def _repository(models: Mapping[str, Mapping[str, Any]], without_texts: bool) -> JsonObject:
    reported = {
        name: {
            "content": None,
            "files": {path: _observed_file(path, text, without_texts) for path, text in files.items()},
        }
        for name, files in models.items()
    }
    return {"load_models": [], "models": reported}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _model(name: str, files: Mapping[str, str]) -> ModelFiles:
    return ModelFiles(digest(files), {path: _desired_file(name, path, text) for path, text in files.items()})


def _desired_file(name: str, path: str, text: str) -> RepositoryFile:
    if path.endswith("/"):
        return RepositoryFile("")
    if path == "config.pbtxt":
        return RepositoryFile(sha256(text), len(text.encode()), text=text)
    return RepositoryFile(sha256(text), len(text.encode()), source=f"models/{name}/{path}")


def _observed_file(path: str, text: Any, without_texts: bool) -> JsonObject:
    if isinstance(text, Mapping):
        return text
    if path.endswith("/"):
        return {"size": 0, "sha256": ""}
    reported = {"text": text} if path == "config.pbtxt" and not without_texts else {}
    return {"size": len(text.encode()), "sha256": sha256(text), **reported}
