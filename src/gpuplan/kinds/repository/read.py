"""What lies in the repositories of a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuplan.model.snapshot import ProbeError, Snapshot
from gpuplan.model.value import JsonObject, as_object


@dataclass(frozen=True)
class FoundFile:
    """One thing in a model's directory."""

    sha256: str
    """Empty for a link, which has no content of its own."""
    text: str | None = None
    """The text of a config.pbtxt, where the node tells it."""
    link: str | None = None
    """Where a symbolic link points."""


@dataclass(frozen=True)
class Observed:
    """All repositories of the plan file on one node: container → model → path → file."""

    repositories: Mapping[str, Mapping[str, Mapping[str, FoundFile]]] = field(default_factory=dict)
    error: ProbeError | None = None
    """Why nothing is known."""


def read(snapshot: Snapshot) -> Observed:
    """The repositories of the snapshot; an answer that is not of the agreed form is an error, never an empty node."""
    probe = snapshot.probe("repository")
    if probe.error is not None:
        return Observed(error=probe.error)
    try:
        raw = as_object(as_object(probe.value)["repositories"])
        found = {container: _models(as_object(repository)) for container, repository in raw.items()}
    except (KeyError, TypeError) as fault:
        return Observed(error=ProbeError("unexpected", f"the answer has another form: {fault}"))
    return Observed(found)


def _models(repository: JsonObject) -> Mapping[str, Mapping[str, FoundFile]]:
    return {
        name: {path: _file(as_object(file)) for path, file in as_object(as_object(model)["files"]).items()}
        for name, model in as_object(repository["models"]).items()
    }


def _file(value: JsonObject) -> FoundFile:
    if "link" in value:
        return FoundFile("", link=str(value["link"]))
    text = value.get("text")
    return FoundFile(str(value["sha256"]), text if isinstance(text, str) else None)
