"""What the model servers of a node have loaded, what their repositories hold, and what each loads when it starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from gpuplan.resources.model.memory import Memory, read_memory
from gpuplan.resources.snapshot.docker import Live, containers
from gpuplan.resources.snapshot.labels import CONTENT
from gpuplan.types.snapshot import Probe, ProbeError, Snapshot
from gpuplan.types.value import Json, JsonObject, as_list, as_object

READY = "READY"
Found = TypeVar("Found")


@dataclass(frozen=True)
class Version:
    """One entry of a server's repository index."""

    number: int | None
    state: str
    """Empty for a model that was never loaded."""
    reason: str = ""


@dataclass(frozen=True)
class Server:
    """One model server that answered."""

    address: str
    """`host:port` as the node reaches it."""
    index: Mapping[str, Sequence[Version]]
    contents: Mapping[str, str]
    """Model → the content that it has loaded, for those that carry our mark."""
    parts: Mapping[str, Sequence[str]]
    """Ensemble → the models that it is composed of."""
    on_disk: frozenset[str] | None = None
    """The models whose directories lie in a directory of the node that it serves; None where it has none, or where that
    could not be read."""

    def ready(self, model: str) -> tuple[int, ...]:
        """The versions that are READY."""
        versions = self.index.get(model, ())
        return tuple(sorted(each.number for each in versions if each.state == READY and each.number is not None))

    def loaded(self, model: str) -> bool:
        """True where a version serves, or is on its way to or from it."""
        return any(each.state not in ("", "UNAVAILABLE", "UNKNOWN") for each in self.index.get(model, ()))

    def loading(self, model: str) -> bool:
        """True while a version is being loaded."""
        return any(each.state == "LOADING" for each in self.index.get(model, ()))

    def moving(self, model: str) -> bool:
        """True while a version is on its way to or from serving."""
        return any(each.state in ("LOADING", "UNLOADING") for each in self.index.get(model, ()))

    def state(self, model: str) -> str | None:
        """The state of a model in one word; None where it was never loaded."""
        states = {each.state for each in self.index.get(model, ())}
        order = (READY, "LOADING", "UNLOADING", "UNAVAILABLE", "UNKNOWN")
        return next((state for state in order if state in states), None)

    def reason(self, model: str) -> str:
        """Why versions are not READY, in the server's words."""
        reasons = [each.reason.strip() for each in self.index.get(model, ()) if each.state != READY]
        return "; ".join(dict.fromkeys(filter(None, reasons)))


@dataclass(frozen=True)
class Observed:
    """Everything that the room reads; an error stands in the place of what could not be read."""

    containers: Sequence[Live] | ProbeError = ()
    servers: Mapping[str, Server | ProbeError] | ProbeError = field(default_factory=dict)
    """By container id."""
    at_start: Mapping[str, frozenset[str]] | ProbeError = field(default_factory=dict)
    """Container → the models that its server loads when it starts."""
    files: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Container → the models whose files lie in its repository."""
    unproven: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Container → the models whose files before stand by still, since nobody has said that the new ones are right."""
    memory: Memory = field(default_factory=Memory)

    def container(self, plan: str, role: str, *, own: bool = False) -> Live | None:
        """The container that stands for a name of the plan file: the one that runs, or bears the name itself.

        A server that its `own` command starts may be somebody else's.
        """
        if isinstance(self.containers, ProbeError):
            return None
        ours = [each for each in self.containers if (each.plan, each.role) == (plan, role)]
        if own and not ours:
            ours = [each for each in self.containers if (each.plan, each.name) == ("", role)]
        return max(ours, key=lambda each: (each.busy, each.name == role), default=None)


def read(snapshot: Snapshot) -> Observed:
    """The servers of the snapshot. Never raises: an answer of another form is an error of its probe."""
    files, unproven = (_guarded(snapshot.probe("repository"), reader) for reader in (_files, _unproven))
    return Observed(
        containers=_guarded(snapshot.probe("docker"), containers),
        servers=_guarded(snapshot.probe("triton"), _servers),
        at_start=_guarded(snapshot.probe("repository"), _at_start),
        files={} if isinstance(files, ProbeError) else files,
        unproven={} if isinstance(unproven, ProbeError) else unproven,
        memory=read_memory(snapshot),
    )


def _guarded(probe: Probe, reader: Callable[[JsonObject], Found]) -> Found | ProbeError:
    if probe.error is not None:
        return probe.error
    try:
        return reader(as_object(probe.value))
    except (KeyError, TypeError, ValueError) as fault:
        return ProbeError("unexpected", f"the answer has another form: {fault}")


def _servers(value: JsonObject) -> Mapping[str, Server | ProbeError]:
    return {str(as_object(each)["container"]): _server(as_object(each)) for each in as_list(value["servers"])}


def _server(raw: JsonObject) -> Server | ProbeError:
    if "error" in raw:
        error = as_object(raw["error"])
        return ProbeError(str(error["code"]), str(error["text"]))
    configs = {name: as_object(config) for name, config in as_object(raw["configs"]).items()}
    return Server(
        address=str(raw["address"]),
        index=read_index(as_list(raw["index"])),
        contents={name: mark for name, config in configs.items() if (mark := content_of(config))},
        parts={name: parts for name, config in configs.items() if (parts := _parts(config))},
        on_disk=_on_disk(raw),
    )


def _on_disk(raw: JsonObject) -> frozenset[str] | None:
    served = as_object(raw.get("repository") or {})
    return frozenset(map(str, as_list(served["models"]))) if "models" in served else None


def read_index(entries: Sequence[Json]) -> Mapping[str, Sequence[Version]]:
    """A repository index by model."""
    index: dict[str, list[Version]] = {}
    for entry in map(as_object, entries):
        text = str(entry.get("version") or "")
        number = int(text) if text.isdecimal() else None
        version = Version(number, str(entry.get("state") or ""), str(entry.get("reason") or ""))
        index.setdefault(str(entry["name"]), []).append(version)
    return index


def content_of(config: JsonObject) -> str:
    """Our mark in a model's config as the server gives it; empty where there is none."""
    parameter = as_object(config.get("parameters") or {}).get(CONTENT)
    return str(parameter.get("string_value", "")) if isinstance(parameter, Mapping) else ""


def _parts(config: JsonObject) -> Sequence[str]:
    steps = as_list(as_object(config.get("ensemble_scheduling") or {}).get("step") or ())
    return tuple(str(as_object(step)["model_name"]) for step in steps)


def _at_start(value: JsonObject) -> Mapping[str, frozenset[str]]:
    repositories = as_object(value["repositories"])
    return {name: frozenset(map(str, as_list(as_object(each)["load_models"]))) for name, each in repositories.items()}


def _files(value: JsonObject) -> Mapping[str, frozenset[str]]:
    repositories = as_object(value["repositories"])
    return {name: frozenset(as_object(as_object(each)["models"])) for name, each in repositories.items()}


def _unproven(value: JsonObject) -> Mapping[str, frozenset[str]]:
    models = {name: as_object(as_object(each)["models"]) for name, each in as_object(value["repositories"]).items()}
    return {
        container: frozenset(name for name, each in found.items() if "previous" in as_object(each))
        for container, found in models.items()
    }
