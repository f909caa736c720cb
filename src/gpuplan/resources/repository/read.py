"""What lies in the repositories of a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuplan.types.snapshot import ProbeError, Snapshot
from gpuplan.types.value import JsonObject, as_object


@dataclass(frozen=True)
class ObservedFile:
    """One thing in a model's directory."""

    sha256: str
    """Empty for a link, which has no content of its own."""
    text: str | None = None
    """The text of a config.pbtxt, where the node tells it."""
    link: str | None = None
    """Where a symbolic link points."""
    size: int = 0
    """Bytes."""
    odd: str | None = None
    """What it is where it is neither a file nor a link: a pipe, a socket, a device."""


@dataclass(frozen=True)
class ObservedRepositories:
    """All repositories of the plan file on one node: container → model → path → file."""

    repositories: Mapping[str, Mapping[str, Mapping[str, ObservedFile]]] = field(default_factory=dict)
    unreadable: Mapping[str, Mapping[str, ProbeError]] = field(default_factory=dict)
    """Container → models that are there and could not be read, which are not among the others."""
    error: ProbeError | None = None
    """Why nothing is known."""


def read(snapshot: Snapshot) -> ObservedRepositories:
    """The repositories of the snapshot; an answer that is not of the agreed form is an error, never an empty node."""
    probe = snapshot.probe("repository")
    if probe.error is not None:
        return ObservedRepositories(error=probe.error)
    try:
        raw = as_object(as_object(probe.value)["repositories"])
        models = {container: as_object(as_object(repository)["models"]) for container, repository in raw.items()}
        found = {container: _models(each) for container, each in models.items()}
        unreadable = {container: _unreadable(each) for container, each in models.items()}
    except (KeyError, TypeError) as fault:
        return ObservedRepositories(error=ProbeError("unexpected", f"the answer has another form: {fault}"))
    return ObservedRepositories(found, unreadable)


def _models(models: JsonObject) -> Mapping[str, Mapping[str, ObservedFile]]:
    return {
        name: {path: _file(as_object(file)) for path, file in as_object(as_object(model)["files"]).items()}
        for name, model in models.items()
        if "error" not in as_object(model)
    }


def _unreadable(models: JsonObject) -> Mapping[str, ProbeError]:
    errors = {name: as_object(as_object(model).get("error") or {}) for name, model in models.items()}
    return {name: ProbeError(str(error["code"]), str(error["text"])) for name, error in errors.items() if error}


def _file(value: JsonObject) -> ObservedFile:
    if "link" in value:
        return ObservedFile("", link=str(value["link"]))
    if "odd" in value:
        return ObservedFile("", odd=str(value["odd"]))
    text, size = value.get("text"), value.get("size")
    return ObservedFile(
        str(value["sha256"]),
        text=text if isinstance(text, str) else None,
        size=size if isinstance(size, int) else 0,
    )
