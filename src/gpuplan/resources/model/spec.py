"""The spec of a loaded model: what one Triton should serve, from which repository, in how much GPU memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuplan.planfile.sources.repositories import starts_itself
from gpuplan.resources.typed import decode
from gpuplan.types.value import JsonObject, as_list, as_object


@dataclass(frozen=True)
class InstanceGroup:
    """Instances of a model on GPUs."""

    count: int = 1
    gpus: tuple[int, ...] = ()
    """Counted from 0 inside the container; empty = on each GPU."""


@dataclass(frozen=True)
class SliceSize:
    """The size of a slice as the plan file states it: a profile, or bytes of memory."""

    profile: str = ""
    memory: int = 0


@dataclass(frozen=True)
class MemoryBudget:
    """The GPU memory that the plan file declares for a model."""

    memory: int
    """Bytes of one instance."""
    instance_groups: tuple[InstanceGroup, ...] = (InstanceGroup(),)
    backend: str = ""
    """Empty if it is not known."""
    devices: tuple[str, ...] = ()
    """The GPUs and slices of the server by their names in the plan file, in the order of their numbers."""
    slices: Mapping[str, SliceSize] = field(default_factory=dict)
    """The slices of `devices`, whose memory is known before they exist."""
    overcommit: bool = False
    """The models of the server may declare more than it has."""

    def instances(self, device: int) -> int:
        """How many instances one version of the model has on a GPU of the server."""
        return sum(group.count for group in self.instance_groups if not group.gpus or device in group.gpus)


@dataclass(frozen=True)
class ModelSpec:
    """One model that one Triton should have loaded."""

    container: str
    model: str
    content: str
    """Digest of its files and config, which the server repeats for what it has loaded. In a repository of the server's
    own: digest of the overrides, empty without any."""
    versions: tuple[int, ...]
    """The versions that should be READY, and no others; empty = those that the server's own repository has."""
    load_timeout: float
    """Seconds."""
    repository: str = ""
    """The server's own repository; empty if gpuplan brings the model's files."""
    overrides: tuple[Mapping[str, Any], ...] = ()
    """Config sections that a load lays over the config of that repository, in order."""
    budget: MemoryBudget | None = None
    """None if the plan file does not declare the model's memory."""
    max_parallel: int = 0
    """How many loads the server takes at once if the plan file gives it few HTTP threads; else 0."""

    @property
    def own_command(self) -> bool:
        """Whether the container's own command decides what the server loads at startup."""
        return starts_itself(self.repository)

    def is_served(self, ready: Sequence[int], content: str | None) -> bool:
        """Whether the server has this content READY in these versions."""
        return self.has_versions(ready) and (content or "") == self.content

    def has_versions(self, ready: Sequence[int]) -> bool:
        """Whether the READY versions are the ones that should be."""
        return tuple(ready) == self.versions if self.versions else bool(ready)

    def memory_on(self, device: int) -> int:
        """Bytes that the model takes of one GPU of its server: each version has instances of its own."""
        if self.budget is None:
            return 0
        return self.budget.memory * self.budget.instances(device) * max(1, len(self.versions))


def model_spec(recorded: JsonObject) -> ModelSpec:
    """The spec of a desired or recorded model."""
    return decode(ModelSpec, recorded)


def instance_groups(config: JsonObject) -> tuple[InstanceGroup, ...]:
    """The instances of a model on GPUs by its config: one on each GPU by default, none of an ensemble."""
    if "ensemble_scheduling" in config or config.get("platform") == "ensemble":
        return ()
    groups = [as_object(group) for group in as_list(config.get("instance_group") or ())]
    if not groups:
        return (InstanceGroup(),)
    return tuple(
        InstanceGroup(_integer(group.get("count")) or 1, tuple(map(_integer, as_list(group.get("gpus") or ()))))
        for group in groups
        if group.get("kind") != "KIND_CPU"
    )


def replaces_overrides(overrides: Sequence[JsonObject], previous: Sequence[JsonObject]) -> bool:
    """Whether every field of the previous overrides is overridden again, so that nothing of them can remain."""
    return _leaf_paths(previous) <= _leaf_paths(overrides)


def _leaf_paths(overrides: Sequence[JsonObject]) -> frozenset[str]:
    return frozenset(path for section in overrides for path in _leaves(section, ""))


def _leaves(section: JsonObject, parent: str) -> Iterator[str]:
    for name, value in section.items():
        path = f"{parent}/{name}"
        yield from _leaves(value, path) if isinstance(value, dict) and value else (path,)


def _integer(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
