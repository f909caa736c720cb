"""The spec of a repository, and its steps with the payloads that `apply` gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpuplan.resources.typed import decode, encode
from gpuplan.types.address import Address
from gpuplan.types.change import Step, Verb
from gpuplan.types.value import JsonObject

CONFIG = "config.pbtxt"


@dataclass(frozen=True)
class RepositoryFile:
    """One file of a model, or an empty directory, whose path ends with a slash."""

    sha256: str
    """Empty for a directory."""
    size: int = 0
    """Bytes."""
    source: str | None = None
    """Path of the source, relative to the plan file's directory; None for a rendered file."""
    text: str | None = None
    """The content of a rendered file."""


@dataclass(frozen=True)
class ModelFiles:
    """The files of one model by path."""

    content: str
    """Digest of the files and the config."""
    files: Mapping[str, RepositoryFile] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """How much it is: ``4 files, 812.0 MiB``."""
        size = sum(file.size for file in self.files.values())
        count = sum(1 for file in self.files.values() if file.sha256)
        files = "1 file" if count == 1 else f"{count} files"
        return f"{files}, {size / 2**20:.1f} MiB" if size >= 2**20 else files


@dataclass(frozen=True)
class RepositorySpec:
    """The model repository of one container."""

    container: str
    models: Mapping[str, ModelFiles] = field(default_factory=dict)


@dataclass(frozen=True)
class CreateRepository:
    """Create the directory that a Triton mounts."""

    container: str


@dataclass(frozen=True)
class SwitchModel:
    """Send the files of a model that the node lacks, and replace the model's directory."""

    container: str
    model: str
    files: ModelFiles


@dataclass(frozen=True)
class RemoveModel:
    """Remove one model."""

    container: str
    model: str


@dataclass(frozen=True)
class RemoveRepository:
    """Remove a whole repository."""

    container: str


Payload = CreateRepository | SwitchModel | RemoveModel | RemoveRepository


def repository_spec(recorded: JsonObject) -> RepositorySpec:
    """The spec of a desired or recorded repository."""
    return decode(RepositorySpec, recorded)


def with_previous_model(applied: JsonObject, previous: JsonObject, model: str) -> JsonObject:
    """The applied spec after the rollback of one model: with the files of the `previous` spec, or without the model."""
    spec = repository_spec(applied)
    models = {name: files for name, files in spec.models.items() if name != model}
    before = repository_spec(previous).models if previous else {}
    return encode(replace(spec, models=models | ({model: before[model]} if model in before else {})))


def create_repository(address: Address) -> Step:
    """The step for CreateRepository."""
    title = f"create the model repository of {address.name}"
    payload = CreateRepository(address.name)
    return Step("prepare", address, Verb.CREATE, title, encode(payload), makes=(address,))


def switch_model(address: Address, model: str, files: ModelFiles) -> Step:
    """The step for SwitchModel."""
    title = f"copy {model} to the repository of {address.name} ({files.summary})"
    payload = SwitchModel(address.name, model, files)
    return Step(f"switch-{model}", address, Verb.UPDATE, title, encode(payload), makes=(address.part(model),))


def remove_model(address: Address, model: str) -> Step:
    """The step for RemoveModel."""
    title = f"remove {model} from the repository of {address.name}"
    payload = RemoveModel(address.name, model)
    return Step(f"remove-{model}", address, Verb.DELETE, title, encode(payload), frees=(address.part(model),))


def remove_repository(address: Address) -> Step:
    """The step for RemoveRepository."""
    title = f"remove the model repository of {address.name}"
    payload = RemoveRepository(address.name)
    return Step("remove", address, Verb.DELETE, title, encode(payload), frees=(address,))


def payload_of(step: Step) -> Payload:
    """The payload of a step."""
    match step.name.partition("-")[0], step.verb:
        case "prepare", _:
            return decode(CreateRepository, step.payload)
        case "switch", _:
            return decode(SwitchModel, step.payload)
        case _ if step.name == "remove":
            return decode(RemoveRepository, step.payload)
        case _:
            return decode(RemoveModel, step.payload)
