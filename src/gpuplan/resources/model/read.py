"""Reads which models the Tritons of a node have loaded, have files of, and load at startup."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from gpuplan.resources.model.memory import GpuMemory, read_memory
from gpuplan.resources.snapshot.containers import CONTENT, EngineContainer, containers
from gpuplan.types.snapshot import Probe, ProbeError, Snapshot
from gpuplan.types.value import Json, JsonObject, as_list, as_object

READY = "READY"
Part = TypeVar("Part")


@dataclass(frozen=True)
class ModelVersion:
    """One entry of a server's repository index."""

    number: int | None
    state: str
    """Empty for a model that was never loaded."""
    reason: str = ""


@dataclass(frozen=True)
class ModelServer:
    """One Triton that answered."""

    address: str
    """`host:port` as the node reaches it."""
    index: Mapping[str, Sequence[ModelVersion]]
    contents: Mapping[str, str]
    """Model → digest of the content that it has loaded, for models that carry gpuplan's mark."""
    parts: Mapping[str, Sequence[str]]
    """Ensemble → the models that it is composed of."""
    on_disk: frozenset[str] | None = None
    """The models in the directory of the node that it serves; None if there is none or it is unreadable."""

    def ready(self, model: str) -> tuple[int, ...]:
        """The versions that are READY."""
        versions = self.index.get(model, ())
        return tuple(sorted(v.number for v in versions if v.state == READY and v.number is not None))

    def loaded(self, model: str) -> bool:
        """Whether a version is READY, loading or unloading."""
        return any(v.state not in ("", "UNAVAILABLE", "UNKNOWN") for v in self.index.get(model, ()))

    def loading(self, model: str) -> bool:
        """Whether a version is being loaded."""
        return any(v.state == "LOADING" for v in self.index.get(model, ()))

    def changing(self, model: str) -> bool:
        """Whether a version is being loaded or unloaded."""
        return any(v.state in ("LOADING", "UNLOADING") for v in self.index.get(model, ()))

    def state(self, model: str) -> str | None:
        """The state of a model in one word; None if it was never loaded."""
        states = {version.state for version in self.index.get(model, ())}
        order = (READY, "LOADING", "UNLOADING", "UNAVAILABLE", "UNKNOWN")
        return next((state for state in order if state in states), None)

    def reason(self, model: str) -> str:
        """Why versions are not READY, as the server reports it."""
        reasons = [version.reason.strip() for version in self.index.get(model, ()) if version.state != READY]
        return "; ".join(dict.fromkeys(filter(None, reasons)))


@dataclass(frozen=True)
class ObservedModels:
    """What the kind reads; an error takes the place of what could not be read."""

    containers: Sequence[EngineContainer] | ProbeError = ()
    servers: Mapping[str, ModelServer | ProbeError] | ProbeError = field(default_factory=dict)
    """By container id."""
    at_start: Mapping[str, frozenset[str]] | ProbeError = field(default_factory=dict)
    """Container → the models that its server loads at startup."""
    files: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Container → the models whose files are in its repository."""
    unverified: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Container → the models whose previous files are still kept, since the new ones were not verified."""
    memory: GpuMemory = field(default_factory=GpuMemory)

    def container(self, plan: str, role: str, *, own_command: bool = False) -> EngineContainer | None:
        """The container of a name in the plan file: the running one, or the one of this very name.

        One that starts its server by its `own_command` may be unmanaged.
        """
        if isinstance(self.containers, ProbeError):
            return None
        candidates = [c for c in self.containers if (c.plan, c.role) == (plan, role)]
        if own_command and not candidates:
            candidates = [c for c in self.containers if (c.plan, c.name) == ("", role)]
        return max(candidates, key=lambda container: (container.busy, container.name == role), default=None)


def read(snapshot: Snapshot) -> ObservedModels:
    """The servers of the snapshot. Never raises: an unexpected answer becomes an error of its probe."""
    repositories = _guarded(snapshot.probe("repository"), _repositories)
    error = repositories if isinstance(repositories, ProbeError) else None
    at_start, files, unverified = ({}, {}, {}) if isinstance(repositories, ProbeError) else repositories
    return ObservedModels(
        containers=_guarded(snapshot.probe("docker"), containers),
        servers=_guarded(snapshot.probe("triton"), _servers),
        at_start=error or at_start,
        files=files,
        unverified=unverified,
        memory=read_memory(snapshot),
    )


def read_index(entries: Sequence[Json]) -> Mapping[str, Sequence[ModelVersion]]:
    """A repository index by model."""
    index: dict[str, list[ModelVersion]] = {}
    for entry in map(as_object, entries):
        version = str(entry.get("version") or "")
        number = int(version) if version.isdecimal() else None
        state, reason = str(entry.get("state") or ""), str(entry.get("reason") or "")
        index.setdefault(str(entry["name"]), []).append(ModelVersion(number, state, reason))
    return index


def content_of(config: JsonObject) -> str:
    """The content digest in a model's config as the server reports it; empty if there is none."""
    parameter = as_object(config.get("parameters") or {}).get(CONTENT)
    return str(parameter.get("string_value", "")) if isinstance(parameter, Mapping) else ""


def _guarded(probe: Probe, reader: Callable[[JsonObject], Part]) -> Part | ProbeError:
    if probe.error is not None:
        return probe.error
    try:
        return reader(as_object(probe.value))
    except (KeyError, TypeError, ValueError) as error:
        return ProbeError("unexpected", f"unexpected answer: {error}")


def _servers(value: JsonObject) -> Mapping[str, ModelServer | ProbeError]:
    return {str(raw["container"]): _server(raw) for raw in map(as_object, as_list(value["servers"]))}


def _server(raw: JsonObject) -> ModelServer | ProbeError:
    if "error" in raw:
        error = as_object(raw["error"])
        return ProbeError(str(error["code"]), str(error["text"]))
    configs = {name: as_object(config) for name, config in as_object(raw["configs"]).items()}
    served = as_object(raw.get("repository") or {})
    return ModelServer(
        address=str(raw["address"]),
        index=read_index(as_list(raw["index"])),
        contents={name: content for name, config in configs.items() if (content := content_of(config))},
        parts={name: parts for name, config in configs.items() if (parts := _parts(config))},
        on_disk=frozenset(map(str, as_list(served["models"]))) if "models" in served else None,
    )


def _parts(config: JsonObject) -> Sequence[str]:
    steps = as_list(as_object(config.get("ensemble_scheduling") or {}).get("step") or ())
    return tuple(str(as_object(step)["model_name"]) for step in steps)


def _repositories(value: JsonObject) -> Sequence[Mapping[str, frozenset[str]]]:
    """By container: the models that are loaded at startup, those with files, and those with previous files."""
    at_start: dict[str, frozenset[str]] = {}
    files: dict[str, frozenset[str]] = {}
    unverified: dict[str, frozenset[str]] = {}
    for container, raw in as_object(value["repositories"]).items():
        models = {name: as_object(model) for name, model in as_object(as_object(raw)["models"]).items()}
        at_start[container] = frozenset(map(str, as_list(as_object(raw)["load_models"])))
        files[container] = frozenset(models)
        unverified[container] = frozenset(name for name, model in models.items() if "previous" in model)
    return at_start, files, unverified
