"""A repository as a spec states it, in types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuplan.types.value import JsonObject, as_object

CONFIG = "config.pbtxt"


@dataclass(frozen=True)
class WantedFile:
    """One file that should lie on the node, and where its content is to be had."""

    sha256: str
    """Empty for an empty directory, whose path ends with a slash."""
    size: int
    origin: str | None
    """Path of the source, relative to the plan file's folder; None where `text` is the content, or there is none."""
    text: str | None


@dataclass(frozen=True)
class WantedModel:
    """One model's directory as it should be."""

    content: str
    files: Mapping[str, WantedFile]
    json: JsonObject
    """As the spec has it."""


def wanted_models(spec: JsonObject) -> Mapping[str, WantedModel]:
    """The models of a RepositorySpec by name."""
    return {name: wanted_model(as_object(model)) for name, model in as_object(spec["models"]).items()}


def with_former(made: JsonObject, before: JsonObject, model: str) -> JsonObject:
    """A RepositorySpec with the files of one model as another one, from before, has them."""
    models = {name: files for name, files in as_object(made["models"]).items() if name != model}
    former = as_object(before.get("models") or {}).get(model)
    return {**made, "models": models if former is None else {**models, model: former}}


def wanted_model(value: JsonObject) -> WantedModel:
    """One model of a RepositorySpec."""
    files = {path: _file(as_object(file)) for path, file in as_object(value["files"]).items()}
    return WantedModel(str(value["content"]), files, value)


def _file(value: JsonObject) -> WantedFile:
    origin, text, size = value.get("from"), value.get("text"), value["size"]
    if not isinstance(size, int):
        raise TypeError(f"expected a size, found {size!r}")
    return WantedFile(
        sha256=str(value["sha256"]),
        size=size,
        origin=None if origin is None else str(origin),
        text=None if text is None else str(text),
    )
