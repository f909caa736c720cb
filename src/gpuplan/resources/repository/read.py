"""Reads which files lie in the model repositories of a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuplan.types.snapshot import ProbeError, Snapshot
from gpuplan.types.value import JsonObject, as_object


@dataclass(frozen=True)
class ObservedFile:
    """One entry of a model's directory."""

    sha256: str
    """Empty for anything but a regular file."""
    text: str | None = None
    """The text of a config.pbtxt, if the node reported it."""
    link: str | None = None
    """The target of a symbolic link."""
    size: int = 0
    """Bytes."""
    special: str | None = None
    """What a special file is: a pipe, a socket, a device."""

    @property
    def is_regular(self) -> bool:
        """Whether it is a regular file or a directory."""
        return not self.link and not self.special


ObservedFiles = Mapping[str, ObservedFile]
"""The files of one model by path."""


@dataclass(frozen=True)
class ObservedRepositories:
    """All repositories of the plan file on one node."""

    repositories: Mapping[str, Mapping[str, ObservedFiles]] = field(default_factory=dict)
    """Container → model → files."""
    unreadable: Mapping[str, Mapping[str, ProbeError]] = field(default_factory=dict)
    """Container → models that could not be read; they are not among the others."""
    error: ProbeError | None = None
    """Why no repository could be read."""


def read(snapshot: Snapshot) -> ObservedRepositories:
    """The repositories of the snapshot; an unexpected answer is an error, never an empty node."""
    probe = snapshot.probe("repository")
    if probe.error is not None:
        return ObservedRepositories(error=probe.error)
    try:
        raw = as_object(as_object(probe.value)["repositories"])
        models = {container: as_object(as_object(repository)["models"]) for container, repository in raw.items()}
        return ObservedRepositories(
            repositories={container: _models(raw_models) for container, raw_models in models.items()},
            unreadable={container: _unreadable(raw_models) for container, raw_models in models.items()},
        )
    except (KeyError, TypeError) as error:
        return ObservedRepositories(error=ProbeError("unexpected", f"unexpected answer: {error}"))


def _models(models: JsonObject) -> Mapping[str, ObservedFiles]:
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
        return ObservedFile("", special=str(value["odd"]))
    text, size = value.get("text"), value.get("size")
    return ObservedFile(
        str(value["sha256"]),
        text=text if isinstance(text, str) else None,
        size=size if isinstance(size, int) else 0,
    )
