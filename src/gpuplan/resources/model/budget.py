"""The GPU memory of a model as the plan file declares it: how much one instance takes, and where its instances are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuplan.types.value import JsonObject, as_list, as_object


@dataclass(frozen=True)
class Budget:
    """What one model takes of the GPUs of its server."""

    memory: int
    """Bytes of one instance."""
    groups: tuple[tuple[int, tuple[int, ...]], ...]
    """How many instances on each of which GPUs, counted from 0 inside the container; without GPUs = on each of them."""
    backend: str
    """Empty where it is not known."""
    devices: tuple[str, ...]
    """The GPUs and slices of its server, by their names in the plan file, in the order of their numbers."""
    slices: Mapping[str, JsonObject]
    """Slice → `profile` or `memory` as the plan file states it."""
    overcommit: bool = False
    """More may be declared than there is."""

    def json(self) -> JsonObject:
        """The form that a spec keeps."""
        return {
            "memory": self.memory,
            "groups": [[count, list(gpus)] for count, gpus in self.groups],
            "backend": self.backend,
            "devices": list(self.devices),
            "slices": dict(self.slices),
            "overcommit": self.overcommit,
        }

    def instances(self, device: int) -> int:
        """How many instances one version of the model has on a GPU of its server."""
        return sum(count for count, gpus in self.groups if not gpus or device in gpus)

    def on(self, device: int, versions: int) -> int:
        """Bytes on a GPU of its server; each version has instances of its own."""
        return self.memory * self.instances(device) * max(1, versions)


def groups_of(config: JsonObject) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """The instances of a model on GPUs by its config; one on each GPU where it says nothing, none of an ensemble."""
    if "ensemble_scheduling" in config or config.get("platform") == "ensemble":
        return ()
    stated = [as_object(each) for each in as_list(config.get("instance_group") or ())]
    if not stated:
        return ((1, ()),)
    return tuple(
        (_whole(each.get("count")) or 1, tuple(map(_whole, as_list(each.get("gpus") or ()))))
        for each in stated
        if each.get("kind") != "KIND_CPU"
    )


def budget_from(value: JsonObject) -> Budget:
    """The budget of its JSON form."""
    return Budget(
        memory=_whole(value["memory"]),
        groups=tuple(_group(as_list(each)) for each in as_list(value["groups"])),
        backend=str(value["backend"]),
        devices=tuple(map(str, as_list(value["devices"]))),
        slices={name: as_object(each) for name, each in as_object(value["slices"]).items()},
        overcommit=value["overcommit"] is True,
    )


def _group(value: Sequence[object]) -> tuple[int, tuple[int, ...]]:
    count, gpus = value
    return _whole(count), tuple(map(_whole, gpus)) if isinstance(gpus, list | tuple) else ()


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
