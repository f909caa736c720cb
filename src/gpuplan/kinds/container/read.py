"""Read: the containers, images and GPUs that a node's snapshot tells of, as typed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuplan.kinds.container.devices import Gpus, read_gpus
from gpuplan.kinds.container.raw import mapping, mappings, texts, whole
from gpuplan.model.snapshot import ProbeError, Snapshot
from gpuplan.model.value import JsonObject

PLAN_LABEL = "gpuplan.plan"
NAME_LABEL = "gpuplan.name"
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
class Live:
    """One container of the node; `config` and `host_config` are as the engine says them."""

    id: str
    name: str
    image_id: str
    image: str
    """As it was named when the container was created."""
    status: str
    """created, running, paused, restarting, removing, exited or dead."""
    exit_code: int
    oom_killed: bool
    error: str
    restarts: int
    config: JsonObject = field(repr=False)
    host_config: JsonObject = field(repr=False)

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels, those of the image included."""
        return {name: str(value) for name, value in mapping(self.config.get("Labels")).items()}

    @property
    def plan(self) -> str:
        """The plan file that made it; empty = not of gpuplan."""
        return self.labels.get(PLAN_LABEL, "")

    @property
    def role(self) -> str:
        """Its name in the plan file; its own where no label says so."""
        return self.labels.get(NAME_LABEL) or self.name

    @property
    def leftover(self) -> bool:
        """True for what an interrupted or failed replacement left."""
        return self.name.endswith((OLD, FAILED))

    @property
    def busy(self) -> bool:
        """True where its processes hold ports and devices, or will again in a moment."""
        return self.status in ("running", "paused", "restarting")


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
            containers=tuple(sorted(map(live, mappings(value.get("containers"))), key=lambda each: each.name)),
            images=tuple(map(_image, mappings(value.get("images")))),
            gpus=gpus,
            default_runtime=str(mapping(value.get("info")).get("DefaultRuntime") or "runc"),
        )
    except (KeyError, TypeError, ValueError) as fault:
        return Observed(snapshot.node, gpus=gpus, error=ProbeError("unexpected", f"the engine's answer: {fault!r}"))


def live(raw: JsonObject) -> Live:
    """One container of its inspect data.

    Raises:
        KeyError: a field that every engine gives is missing.
    """
    state = mapping(raw["State"])
    config = mapping(raw["Config"])
    return Live(
        id=str(raw["Id"]),
        name=str(raw["Name"]).removeprefix("/"),
        image_id=str(raw["Image"]),
        image=str(config.get("Image", "")),
        status=str(state["Status"]),
        exit_code=whole(state.get("ExitCode")),
        oom_killed=state.get("OOMKilled") is True,
        error=str(state.get("Error") or ""),
        restarts=whole(raw.get("RestartCount")),
        config=config,
        host_config=mapping(raw.get("HostConfig")),
    )


def _image(raw: JsonObject) -> Image:
    return Image(
        id=str(raw["Id"]),
        tags=texts(raw.get("RepoTags")),
        digests=texts(raw.get("RepoDigests")),
        config=mapping(raw.get("Config") or raw.get("ContainerConfig")),
    )
