"""Read: the containers, images and GPUs that a node's snapshot tells of, as typed values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpuplan.resources.container.access import read_access
from gpuplan.resources.container.memory import DeviceMemory, read_device_memory
from gpuplan.resources.container.node import GpuProcess, Listener, read_listeners, read_processes
from gpuplan.resources.container.podman import as_docker, image_names, is_podman
from gpuplan.resources.container.toolkit import Toolkit, read_toolkit
from gpuplan.resources.snapshot.devices import Gpus, read_gpus
from gpuplan.resources.snapshot.docker import Live, containers
from gpuplan.resources.snapshot.labels import ASIDE
from gpuplan.resources.snapshot.raw import mapping, mappings, sequence, texts, whole
from gpuplan.types.snapshot import ProbeError, Snapshot
from gpuplan.types.value import JsonObject

PREVIOUS_SUFFIX, NEW_SUFFIX, FAILED_SUFFIX = f"{ASIDE}old", f"{ASIDE}new", f"{ASIDE}failed"
"""Endings of what a replacement has beside the name: the one before, the one to come, the one that did not come up."""
_SHORT = 12
"""Characters of an id that docker shows."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64el": "ppc64le"}
"""Names of the kernel for what images name otherwise."""


@dataclass(frozen=True)
class ObservedImage:
    """One image of the node."""

    id: str
    tags: tuple[str, ...]
    digests: tuple[str, ...]
    config: JsonObject
    architecture: str = ""
    """As images name it: amd64, arm64; empty where the engine does not say."""


@dataclass(frozen=True)
class ObservedEngine:
    """What the engine says of itself and its node; empty and 0 where it does not."""

    log_driver: str = ""
    architecture: str = ""
    """As images name it: amd64, arm64."""
    memory: int = 0
    """Bytes of the node's main memory."""
    cpus: int = 0
    containerd_store: bool = False
    """True where images lie in containerd's store, which calls them by their manifests."""


@dataclass(frozen=True)
class RegistryAnswer:
    """What a registry said of a tag: the digest that it means now, or why it is not known."""

    digest: str = ""
    problem: str = ""


@dataclass(frozen=True)
class ObservedContainers:
    """What the room sees of a node."""

    node: str
    containers: tuple[Live, ...] = ()
    images: tuple[ObservedImage, ...] = ()
    gpus: Gpus = field(default_factory=Gpus)
    registry: Mapping[str, RegistryAnswer] = field(default_factory=dict)
    """Image as the plan file names it → what its registry says of it, for those that the plan file has asked."""
    networks: Mapping[str, str] = field(default_factory=dict)
    """Id of each network of the node, whole and as the engine shortens it → its name; empty where it was not asked."""
    engine: ObservedEngine = field(default_factory=ObservedEngine)
    default_runtime: str = "runc"
    toolkit: Toolkit = field(default_factory=Toolkit)
    denied: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Container → GPU device files that it has and may not open any more."""
    memory: Mapping[str, DeviceMemory] = field(default_factory=dict)
    """Of each GPU and slice, by UUID."""
    listeners: tuple[Listener, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    error: ProbeError | None = None
    """Why nothing is known of the containers."""

    def image(self, image_id: str) -> ObservedImage | None:
        """The image of that id, where it is on the node."""
        return next((image for image in self.images if image.id == image_id), None)


def read(snapshot: Snapshot) -> ObservedContainers:
    """The containers of a snapshot; where the engine could not be asked, only why."""
    gpus = read_gpus(snapshot)
    probe = snapshot.probe("docker")
    if probe.error is not None:
        return ObservedContainers(snapshot.node, gpus=gpus, error=probe.error)
    value = mapping(probe.value)
    podman = is_podman(mapping(value.get("version")))
    try:
        found = containers(probe.value)
        return ObservedContainers(
            node=snapshot.node,
            containers=tuple(map(as_docker, found)) if podman else found,
            images=tuple(_image(each, podman) for each in mappings(value.get("images"))),
            gpus=gpus,
            registry=_registry(snapshot),
            memory=read_device_memory(snapshot),
            networks=dict(_networks(value)),
            engine=_engine(mapping(value.get("info"))),
            toolkit=read_toolkit(snapshot),
            denied=read_access(snapshot),
            listeners=read_listeners(snapshot),
            processes=read_processes(snapshot),
            default_runtime=str(mapping(value.get("info")).get("DefaultRuntime") or "runc"),
        )
    except (KeyError, TypeError, ValueError) as fault:
        return ObservedContainers(
            snapshot.node, gpus=gpus, error=ProbeError("unexpected", f"the engine's answer: {fault!r}")
        )


def is_leftover(live: Live) -> bool:
    """True for what an interrupted or failed replacement left."""
    return live.name.endswith((PREVIOUS_SUFFIX, NEW_SUFFIX, FAILED_SUFFIX))


def _networks(value: JsonObject) -> Iterator[tuple[str, str]]:
    for each in mappings(value.get("networks")):
        identity, name = str(each.get("Id") or ""), str(each.get("Name") or "")
        yield from ((identity, name), (identity[:_SHORT], name))


def unnamed_volumes(live: Live, image: ObservedImage | None) -> tuple[str, ...]:
    """Where a container keeps data that goes with it, apart from where its image says so."""
    expected = mapping(image.config.get("Volumes")) if image else {}
    named = {bind.partition(":")[2].partition(":")[0] for bind in texts(live.host_config.get("Binds"))}
    return tuple(sorted(mapping(live.config.get("Volumes")).keys() - expected.keys() - named))


def _engine(info: JsonObject) -> ObservedEngine:
    machine = str(info.get("Architecture") or "")
    return ObservedEngine(
        log_driver=str(info.get("LoggingDriver") or ""),
        architecture=_ARCHITECTURES.get(machine, machine),
        memory=whole(info.get("MemTotal")),
        cpus=whole(info.get("NCPU")),
        containerd_store=any(
            "io.containerd.snapshotter.v1" in texts(pair) for pair in sequence(info.get("DriverStatus"))
        ),
    )


def _registry(snapshot: Snapshot) -> Mapping[str, RegistryAnswer]:
    said = mapping(mapping(snapshot.probe("registry").value).get("images"))
    return {
        name: RegistryAnswer(str(mapping(each).get("digest") or ""), str(mapping(each).get("problem") or ""))
        for name, each in said.items()
    }


def _image(raw: JsonObject, podman: bool) -> ObservedImage:
    tags, digests = texts(raw.get("RepoTags")), texts(raw.get("RepoDigests"))
    return ObservedImage(
        id=str(raw.get("Id") or ""),
        tags=image_names(tags) if podman else tags,
        digests=image_names(digests) if podman else digests,
        config=mapping(raw.get("Config") or raw.get("ContainerConfig")),
        architecture=str(raw.get("Architecture") or ""),
    )
