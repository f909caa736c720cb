"""Read: the containers, images and GPUs that a node's snapshot tells of, as typed values."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuplan.kinds.ground.devices import Gpus, read_gpus
from gpuplan.kinds.ground.docker import Live, containers
from gpuplan.kinds.ground.raw import mapping, mappings, texts
from gpuplan.model.snapshot import ProbeError, Snapshot
from gpuplan.model.value import JsonObject

OLD, FAILED = ".gpuplan-old", ".gpuplan-failed"
"""Endings of what a replacement keeps: the one before, and the one that did not come up."""


@dataclass(frozen=True)
class Image:
    """One image of the node."""

    id: str
    tags: tuple[str, ...]
    digests: tuple[str, ...]
    config: JsonObject


@dataclass(frozen=True)
class Observed:
    """What the room sees of a node."""

    node: str
    containers: tuple[Live, ...] = ()
    images: tuple[Image, ...] = ()
    gpus: Gpus = field(default_factory=Gpus)
    default_runtime: str = "runc"
    error: ProbeError | None = None
    """Why nothing is known of the containers."""

    def image(self, image_id: str) -> Image | None:
        """The image of that id, where it is on the node."""
        return next((image for image in self.images if image.id == image_id), None)


def read(snapshot: Snapshot) -> Observed:
    """The containers of a snapshot; where the engine could not be asked, only why."""
    gpus = read_gpus(snapshot)
    probe = snapshot.probe("docker")
    if probe.error is not None:
        return Observed(snapshot.node, gpus=gpus, error=probe.error)
    value = mapping(probe.value)
    try:
        return Observed(
            node=snapshot.node,
            containers=containers(probe.value),
            images=tuple(map(_image, mappings(value.get("images")))),
            gpus=gpus,
            default_runtime=str(mapping(value.get("info")).get("DefaultRuntime") or "runc"),
        )
    except (KeyError, TypeError, ValueError) as fault:
        return Observed(snapshot.node, gpus=gpus, error=ProbeError("unexpected", f"the engine's answer: {fault!r}"))


def leftover(live: Live) -> bool:
    """True for what an interrupted or failed replacement left."""
    return live.name.endswith((OLD, FAILED))


def _image(raw: JsonObject) -> Image:
    return Image(
        id=str(raw.get("Id") or ""),
        tags=texts(raw.get("RepoTags")),
        digests=texts(raw.get("RepoDigests")),
        config=mapping(raw.get("Config") or raw.get("ContainerConfig")),
    )
