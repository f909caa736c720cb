"""Cases as data: the files that are wanted and the files that lie on the node → what the room must say of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpuplan.resources.repository.diff import diff
from gpuplan.resources.repository.read import read
from gpuplan.types.address import Address
from gpuplan.types.change import Comparison
from gpuplan.types.record import Record, Recorded
from gpuplan.types.resource import Desired, DiffContext
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
        """What the room says now."""
        return diff(self.desired, read(self.snapshot), DiffContext("n", "prod", self.record))


def load(path: Path) -> Case:
    """Read a case; a key that nobody reads is an error."""
    stated = checked(
        yaml.safe_load(path.read_text("utf-8")), "about wanted found unreadable error recorded silent expect"
    )
    recorded = wishes(stated.get("recorded", {}))
    error = stated.get("error")
    probe = Probe(error=ProbeError(*error)) if error else found(stated.get("found", {}), stated.get("silent", False))
    probe = unreadable(probe, stated.get("unreadable", {}))
    return Case(
        stated["about"],
        wishes(stated.get("wanted", {})),
        Snapshot("n", {"repository": probe}),
        Record("prod", "r1", resources={each.address: Recorded(each.digest, each.spec) for each in recorded}),
        stated["expect"],
    )


def wishes(wanted: Texts) -> tuple[Desired, ...]:
    """Desired repositories of files that are given by their texts."""
    return tuple(
        Desired(
            Address("n", "repository", container),
            {"container": container, "models": {name: _model(name, files) for name, files in models.items()}},
        )
        for container, models in wanted.items()
    )


def found(repositories: Texts, silent: bool = False) -> Probe:
    """What the node tells of the same; a silent one tells no texts."""
    return Probe({"repositories": {name: _repository(models, silent) for name, models in repositories.items()}})


def unreadable(probe: Probe, errors: Mapping[str, Mapping[str, Sequence[str]]]) -> Probe:
    """The same, with models that the node could not read: container → model → code and text."""
    if not errors:
        return probe
    value: Any = probe.value
    for container, models in errors.items():
        there = value["repositories"].setdefault(container, {"load_models": [], "models": {}})
        there["models"] |= {name: {"error": {"code": code, "text": text}} for name, (code, text) in models.items()}
    return probe


def _repository(models: Mapping[str, Mapping[str, Any]], silent: bool) -> JsonObject:
    told = {
        name: {"content": None, "files": {path: _found(path, text, silent) for path, text in files.items()}}
        for name, files in models.items()
    }
    return {"load_models": [], "models": told}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _model(name: str, files: Mapping[str, str]) -> JsonObject:
    return {"content": digest(files), "files": {path: _wanted(name, path, text) for path, text in files.items()}}


def _wanted(name: str, path: str, text: str) -> JsonObject:
    if path.endswith("/"):
        return {"sha256": "", "size": 0}
    content = {"text": text} if path == "config.pbtxt" else {"from": f"models/{name}/{path}"}
    return {"sha256": sha256(text), "size": len(text.encode()), **content}


def _found(path: str, text: Any, silent: bool) -> JsonObject:
    if isinstance(text, Mapping):
        return text
    if path.endswith("/"):
        return {"size": 0, "sha256": ""}
    told = {"text": text} if path == "config.pbtxt" and not silent else {}
    return {"size": len(text.encode()), "sha256": sha256(text), **told}
