"""Read: a node's snapshot as typed values: containers, images, networks, the engine, GPU memory, processes, ports.

What Podman's compatible socket reports differently is brought to Docker's form (seen with 4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpuplan.resources.container.gpu_access import Toolkit, read_access, read_toolkit
from gpuplan.resources.snapshot.containers import REPLACEMENT_MARK, EngineContainer, containers
from gpuplan.resources.snapshot.devices import NodeGpus, read_gpus
from gpuplan.types.snapshot import ProbeError, Snapshot
from gpuplan.types.value import JsonObject, integer, mapping, mappings, sequence, texts

PREVIOUS_SUFFIX, NEW_SUFFIX, FAILED_SUFFIX = (
    f"{REPLACEMENT_MARK}old",
    f"{REPLACEMENT_MARK}new",
    f"{REPLACEMENT_MARK}failed",
)
"""Suffixes that a replacement gives the previous container, the new one until it is ready, and one that failed."""
_SHORT_ID = 12
"""Characters of an id that docker shows."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64el": "ppc64le"}
"""The kernel's names of architectures that images name differently."""
_MIB = 1 << 20
_PODMAN_REGISTRY = "localhost/"
"""What Podman puts before the name of an image without a registry."""
_PODMAN_ENV = ("container=podman", "container=oci", "TERM=xterm")
"""Variables that Podman adds to each container, besides the host name."""
_PODMAN_MOUNT_OPTIONS = ("rbind", "nosuid", "nodev")
"""Options that Podman reports for each mount or named volume and that cannot be stated."""
_PODMAN_TMPFS_OPTIONS = ("rprivate", "tmpcopyup")
_PODMAN_CAP_DROP = {"CAP_AUDIT_WRITE", "CAP_MKNOD", "CAP_NET_RAW"}
"""What Podman reports as dropped if nothing is stated, because its defaults are fewer than Docker's."""


@dataclass(frozen=True)
class ObservedImage:
    """One image of the node."""

    id: str
    tags: tuple[str, ...]
    digests: tuple[str, ...]
    config: JsonObject
    architecture: str = ""
    """As images name it: amd64, arm64; empty if the engine does not report it."""


@dataclass(frozen=True)
class ObservedEngine:
    """The engine and its node; empty and 0 for what it does not report."""

    log_driver: str = ""
    architecture: str = ""
    """As images name it: amd64, arm64."""
    memory: int = 0
    """Bytes of the node's main memory."""
    cpus: int = 0
    cgroup_version: str = ""
    """Version of the node's control groups: 1 or 2."""
    api: str = ""
    """Newest version of its API, such as 1.41."""
    containerd_store: bool = False
    """True if images are in containerd's store, where their ids are the digests of their manifests."""


@dataclass(frozen=True)
class RegistryAnswer:
    """The digest that a tag has in its registry now, or why it is not known."""

    digest: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Listener:
    """A port on which a process of the node listens."""

    address: str
    port: int
    protocol: str
    pid: int
    """0 if the agent's user may not see the process."""
    name: str
    container: str
    """Id of its container; empty if it is in none, or that is not known."""

    @property
    def description(self) -> str:
        """Its process in a message, by the first word of its name."""
        name = next(iter(self.name.split()), "")
        return f"The process {name} (pid {self.pid})" if self.pid else "A process"


@dataclass(frozen=True)
class GpuProcess:
    """A process that computes on a GPU or slice."""

    device: str
    """UUID."""
    pid: int
    name: str
    container: str


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of one GPU or slice, in bytes."""

    free: int
    exclusive: bool
    """The compute mode allows one process at a time."""
    held: Mapping[str, int] = field(default_factory=dict)
    """By container id; a process whose use is not reported counts as 0."""


@dataclass(frozen=True)
class ObservedContainers:
    """What the container kind reads of a node."""

    node: str
    containers: tuple[EngineContainer, ...] = ()
    images: tuple[ObservedImage, ...] = ()
    gpus: NodeGpus = field(default_factory=NodeGpus)
    registry: Mapping[str, RegistryAnswer] = field(default_factory=dict)
    """By image as the plan file names it, for those with `pull: always`."""
    networks: Mapping[str, str] = field(default_factory=dict)
    """Id of each network, in full and shortened → its name; empty if the node did not report them."""
    engine: ObservedEngine = field(default_factory=ObservedEngine)
    default_runtime: str = "runc"
    toolkit: Toolkit = field(default_factory=Toolkit)
    denied: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Container id → GPU device files that it has and may no longer open."""
    memory: Mapping[str, DeviceMemory] = field(default_factory=dict)
    """By UUID of the GPU or slice."""
    listeners: tuple[Listener, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    error: ProbeError | None = None
    """Why the containers could not be read."""

    def image(self, image_id: str) -> ObservedImage | None:
        """The image with that id, if it is on the node."""
        return next((image for image in self.images if image.id == image_id), None)


def read(snapshot: Snapshot) -> ObservedContainers:
    """The containers of a snapshot; only the error if the engine could not be read."""
    gpus = read_gpus(snapshot)
    probe = snapshot.probe("docker")
    if probe.error is not None:
        return ObservedContainers(snapshot.node, gpus=gpus, error=probe.error)
    value = mapping(probe.value)
    info = mapping(value.get("info"))
    podman = is_podman(mapping(value.get("version")))
    try:
        live = containers(probe.value)
        return ObservedContainers(
            node=snapshot.node,
            containers=tuple(map(as_docker, live)) if podman else live,
            images=tuple(_image(image, podman) for image in mappings(value.get("images"))),
            gpus=gpus,
            registry=_registry(snapshot),
            networks=dict(_networks(value)),
            engine=_engine(info, mapping(value.get("version"))),
            default_runtime=str(info.get("DefaultRuntime") or "runc"),
            toolkit=read_toolkit(snapshot),
            denied=read_access(snapshot),
            memory=read_device_memory(snapshot),
            listeners=_listeners(snapshot),
            processes=tuple(process for gpu in _gpus(snapshot) for process in _processes(gpu)),
        )
    except (KeyError, TypeError, ValueError) as error:
        unexpected = ProbeError("unexpected", f"unexpected answer of the engine: {error!r}")
        return ObservedContainers(snapshot.node, gpus=gpus, error=unexpected)


def is_leftover(live: EngineContainer) -> bool:
    """True for a container that an interrupted or failed replacement left."""
    return live.name.endswith((PREVIOUS_SUFFIX, NEW_SUFFIX, FAILED_SUFFIX))


def unnamed_volumes(live: EngineContainer, image: ObservedImage | None) -> tuple[str, ...]:
    """Paths of a container's anonymous volumes, which are deleted with it, except those that its image declares."""
    expected = mapping(image.config.get("Volumes")) if image else {}
    named = {bind.partition(":")[2].partition(":")[0] for bind in texts(live.host_config.get("Binds"))}
    return tuple(sorted(mapping(live.config.get("Volumes")).keys() - expected.keys() - named))


def read_device_memory(snapshot: Snapshot) -> Mapping[str, DeviceMemory]:
    """The memory of GPUs and slices by UUID, without those that could not be read."""
    memory: dict[str, DeviceMemory] = {}
    for gpu in _gpus(snapshot):
        if "error" not in gpu:
            memory.update(_device_memory(gpu))
    return memory


def is_podman(version: JsonObject) -> bool:
    """True if this is Podman's answer to GET /version."""
    return any(component.get("Name") == "Podman Engine" for component in mappings(version.get("Components")))


def as_docker(live: EngineContainer) -> EngineContainer:
    """A container of Podman's as Docker would report it."""
    added = (*_PODMAN_ENV, f"HOSTNAME={live.config.get('Hostname')}", f"HOSTNAME={live.id[:12]}")
    env = [line for line in texts(live.config.get("Env")) if line not in added]
    host = dict(live.host_config)
    for key, default in (("PidMode", "private"), ("Runtime", "oci")):
        if host.get(key) == default:
            host[key] = ""
    host["Binds"] = [_bind(bind) for bind in texts(host.get("Binds"))]
    host["Tmpfs"] = {
        path: _without(_PODMAN_TMPFS_OPTIONS, str(options)) for path, options in mapping(host.get("Tmpfs")).items()
    }
    host["Ulimits"] = [
        {**limit, "Name": str(limit.get("Name")).removeprefix("RLIMIT_").lower()}
        for limit in mappings(host.get("Ulimits"))
    ]
    if set(texts(host.get("CapDrop"))) == _PODMAN_CAP_DROP:
        host["CapDrop"] = []
    image = live.image.removeprefix(_PODMAN_REGISTRY)
    config = {**live.config, "Env": env, "Image": image}
    return replace(live, image=image, config=config, host_config=mapping(host))


def _bind(bind: str) -> str:
    source, _, rest = bind.partition(":")
    target, _, options = rest.partition(":")
    return ":".join(filter(None, (source, target, _without(_PODMAN_MOUNT_OPTIONS, options))))


def _without(added: Iterable[str], options: str) -> str:
    return ",".join(option for option in options.split(",") if option not in added)


def _image(raw: JsonObject, podman: bool) -> ObservedImage:
    prefix = _PODMAN_REGISTRY if podman else ""
    return ObservedImage(
        id=str(raw.get("Id") or ""),
        tags=tuple(tag.removeprefix(prefix) for tag in texts(raw.get("RepoTags"))),
        digests=tuple(digest.removeprefix(prefix) for digest in texts(raw.get("RepoDigests"))),
        config=mapping(raw.get("Config") or raw.get("ContainerConfig")),
        architecture=str(raw.get("Architecture") or ""),
    )


def _registry(snapshot: Snapshot) -> Mapping[str, RegistryAnswer]:
    answers = mapping(mapping(snapshot.probe("registry").value).get("images"))
    return {
        name: RegistryAnswer(str(mapping(answer).get("digest") or ""), str(mapping(answer).get("problem") or ""))
        for name, answer in answers.items()
    }


def _networks(value: JsonObject) -> Iterator[tuple[str, str]]:
    for network in mappings(value.get("networks")):
        network_id, name = str(network.get("Id") or ""), str(network.get("Name") or "")
        yield from ((network_id, name), (network_id[:_SHORT_ID], name))


def _engine(info: JsonObject, version: JsonObject) -> ObservedEngine:
    machine = str(info.get("Architecture") or "")
    return ObservedEngine(
        log_driver=str(info.get("LoggingDriver") or ""),
        architecture=_ARCHITECTURES.get(machine, machine),
        memory=integer(info.get("MemTotal")),
        cpus=integer(info.get("NCPU")),
        cgroup_version=str(info.get("CgroupVersion") or ""),
        api=str(version.get("ApiVersion") or ""),
        containerd_store=any(
            "io.containerd.snapshotter.v1" in texts(pair) for pair in sequence(info.get("DriverStatus"))
        ),
    )


def _listeners(snapshot: Snapshot) -> tuple[Listener, ...]:
    return tuple(
        Listener(
            address=str(raw.get("address") or ""),
            port=integer(raw.get("port")),
            protocol=str(raw.get("protocol") or "tcp"),
            pid=integer(raw.get("pid")),
            name=str(raw.get("name") or ""),
            container=str(raw.get("container") or ""),
        )
        for raw in mappings(mapping(snapshot.probe("host").value).get("listening"))
    )


def _gpus(snapshot: Snapshot) -> Iterator[JsonObject]:
    yield from mappings(mapping(snapshot.probe("gpu").value).get("gpus"))


def _processes(gpu: JsonObject) -> Iterator[GpuProcess]:
    """The processes of one GPU; one that NVML assigns to no slice counts as one of the whole GPU."""
    slices = {
        (instance.get("id"), compute.get("id")): str(compute.get("uuid") or "")
        for instance in mappings(gpu.get("instances"))
        for compute in mappings(instance.get("compute_instances"))
    }
    for process in mappings(gpu.get("processes")):
        instance = (process.get("gpu_instance"), process.get("compute_instance"))
        yield GpuProcess(
            device=slices.get(instance, str(gpu.get("uuid") or "")),
            pid=integer(process.get("pid")),
            name=str(process.get("name") or ""),
            container=str(process.get("container") or ""),
        )


def _device_memory(gpu: JsonObject) -> Iterator[tuple[str, DeviceMemory]]:
    processes = list(mappings(gpu.get("processes")))
    exclusive = gpu.get("compute_mode") == "exclusive_process"
    free = integer(mapping(gpu.get("memory")).get("free"))
    yield str(gpu.get("uuid") or ""), DeviceMemory(free, exclusive, _held(processes))
    sizes = {
        profile.get("name"): integer(profile.get("memory_mib")) * _MIB for profile in mappings(gpu.get("profiles"))
    }
    for instance in mappings(gpu.get("instances")):
        inside = [process for process in processes if process.get("gpu_instance") == instance.get("id")]
        used = sum(integer(process.get("used_memory")) for process in inside)
        free = max(0, sizes.get(instance.get("profile"), 0) - used)
        for compute in mappings(instance.get("compute_instances")):
            own = [process for process in inside if process.get("compute_instance") in (None, compute.get("id"))]
            yield str(compute.get("uuid") or ""), DeviceMemory(free, exclusive, _held(own))


def _held(processes: Iterable[JsonObject]) -> Mapping[str, int]:
    held: dict[str, int] = {}
    for process in processes:
        if container := str(process.get("container") or ""):
            held[container] = held.get(container, 0) + integer(process.get("used_memory"))
    return held
