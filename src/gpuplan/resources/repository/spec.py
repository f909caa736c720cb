"""A repository as a spec states it, in types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuplan.types.address import Address
from gpuplan.types.change import Step, Verb
from gpuplan.types.value import JsonObject, as_object

CONFIG = "config.pbtxt"


@dataclass(frozen=True)
class RepositoryFile:
    """One file that should lie on the node, and where its content is to be had."""

    sha256: str
    """Empty for an empty directory, whose path ends with a slash."""
    size: int
    origin: str | None
    """Path of the source, relative to the plan file's folder; None where `text` is the content, or there is none."""
    text: str | None


@dataclass(frozen=True)
class ModelFiles:
    """One model's directory as it should be."""

    content: str
    files: Mapping[str, RepositoryFile]
    json: JsonObject
    """As the spec has it."""


def wanted_models(spec: JsonObject) -> Mapping[str, ModelFiles]:
    """The models of a RepositorySpec by name."""
    return {name: wanted_model(as_object(model)) for name, model in as_object(spec["models"]).items()}


def with_former(made: JsonObject, before: JsonObject | None, model: str) -> JsonObject:
    """A RepositorySpec with the files of one model as another one, from before, has them."""
    models = {name: files for name, files in as_object(made["models"]).items() if name != model}
    former = as_object((before or {}).get("models") or {}).get(model)
    return {**made, "models": models if former is None else {**models, model: former}}


def wanted_model(value: JsonObject) -> ModelFiles:
    """One model of a RepositorySpec."""
    files = {path: _file(as_object(file)) for path, file in as_object(value["files"]).items()}
    return ModelFiles(str(value["content"]), files, value)


def _file(value: JsonObject) -> RepositoryFile:
    origin, text, size = value.get("from"), value.get("text"), value["size"]
    if not isinstance(size, int):
        raise TypeError(f"expected a size, found {size!r}")
    return RepositoryFile(
        sha256=str(value["sha256"]),
        size=size,
        origin=None if origin is None else str(origin),
        text=None if text is None else str(text),
    )


# The four acts on a repository, as steps with all that their apply door needs.


def prepare(address: Address) -> Step:
    """Make the directory that a model server mounts."""
    title = f"make the model repository of {address.name}"
    return Step("prepare", address, Verb.CREATE, title, {"container": address.name}, makes=(address,))


def switch(address: Address, name: str, model: ModelFiles) -> Step:
    """Bring what the node lacks of a model's files and put the new directory in the place of the old one."""
    return Step(
        f"switch-{name}",
        address,
        Verb.UPDATE,
        f"bring {name} to the repository of {address.name} ({summary(model)})",
        {"container": address.name, "model": name, **model.json},
        makes=(address.part(name),),
    )


def remove(address: Address, name: str) -> Step:
    """Take one model out of the repository."""
    title = f"remove {name} from the repository of {address.name}"
    arguments = {"container": address.name, "model": name}
    return Step(f"remove-{name}", address, Verb.DELETE, title, arguments, frees=(address.part(name),))


def remove_all(address: Address) -> Step:
    """Remove a whole repository."""
    title = f"remove the model repository of {address.name}"
    return Step("remove", address, Verb.DELETE, title, {"container": address.name, "model": None}, frees=(address,))


def summary(model: ModelFiles) -> str:
    """How much a model is: ``4 files, 812.0 MiB``."""
    size = sum(file.size for file in model.files.values())
    count = sum(1 for file in model.files.values() if file.sha256)
    files = "1 file" if count == 1 else f"{count} files"
    return f"{files}, {size / 2**20:.1f} MiB" if size >= 2**20 else files
