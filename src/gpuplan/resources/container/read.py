"""Read: the containers, images and GPUs that a node's snapshot tells of, as typed values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpuplan.resources.container.gpu_access import Toolkit, read_access, read_toolkit
from gpuplan.resources.snapshot.devices import Gpus, read_gpus
from gpuplan.resources.snapshot.docker import Live, containers
from gpuplan.resources.snapshot.labels import ASIDE
from gpuplan.resources.snapshot.raw import mapping, mappings, sequence, texts, whole
from gpuplan.types.snapshot import ProbeError, Snapshot
from gpuplan.types.value import JsonObject


@dataclass(frozen=True)
class Listener:
    """A port on which a process of the node listens."""

    address: str
    port: int
    protocol: str
    pid: int
    """0 where the agent's user may not see whose it is."""
    name: str
    container: str
    """Id of its container; empty where it is in none, or not known to be."""

    @property
    def words(self) -> str:
        """What it is called in a message; some write more than their name there."""
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


def read_listeners(snapshot: Snapshot) -> tuple[Listener, ...]:
    """Nothing where the node was not asked."""
    return tuple(
        Listener(
            address=str(each.get("address") or ""),
            port=whole(each.get("port")),
            protocol=str(each.get("protocol") or "tcp"),
            pid=whole(each.get("pid")),
            name=str(each.get("name") or ""),
            container=str(each.get("container") or ""),
        )
        for each in mappings(mapping(snapshot.probe("host").value).get("listening"))
    )


def read_processes(snapshot: Snapshot) -> tuple[GpuProcess, ...]:
    """Those of GPUs that answered; one of which NVML does not say where it runs is on the GPU as a whole."""
    gpus = mappings(mapping(snapshot.probe("gpu").value).get("gpus"))
    return tuple(process for gpu in gpus for process in _of(gpu))


def _of(gpu: JsonObject) -> Iterator[GpuProcess]:
    slices = {
        (instance.get("id"), compute.get("id")): str(compute.get("uuid") or "")
        for instance in mappings(gpu.get("instances"))
        for compute in mappings(instance.get("compute_instances"))
    }
    for each in mappings(gpu.get("processes")):
        place = (each.get("gpu_instance"), each.get("compute_instance"))
        yield GpuProcess(
            device=slices.get(place, str(gpu.get("uuid") or "")),
            pid=whole(each.get("pid")),
            name=str(each.get("name") or ""),
            container=str(each.get("container") or ""),
        )


_LOCAL = "localhost/"
"""What it puts before the name of an image without a registry."""
_OWN = ("container=podman", "container=oci", "TERM=xterm")
"""Variables that it gives each container beside those that are stated; the host name is another."""
_OF_MOUNTS = ("rbind", "nosuid", "nodev")
"""Options that it writes down of each mount, or of each named volume, and that nobody can state."""
_OF_TMPFS = ("rprivate", "tmpcopyup")
"""The same of each tmpfs."""
_DROPPED = {"CAP_AUDIT_WRITE", "CAP_MKNOD", "CAP_NET_RAW"}
"""What it lists as dropped where nobody said anything of capabilities, and its defaults are fewer than Docker's."""


def is_podman(version: JsonObject) -> bool:
    """True where the answer to GET /version is Podman's."""
    return any(each.get("Name") == "Podman Engine" for each in mappings(version.get("Components")))


def image_names(said: Iterable[str]) -> tuple[str, ...]:
    """Names of images without what Podman puts before them."""
    return tuple(name.removeprefix(_LOCAL) for name in said)


def as_docker(live: Live) -> Live:
    """A container as Docker would say it."""
    own = (*_OWN, f"HOSTNAME={live.config.get('Hostname')}", f"HOSTNAME={live.id[:12]}")
    env = [line for line in texts(live.config.get("Env")) if line not in own]
    host = dict(live.host_config)
    for key, plain in (("PidMode", "private"), ("Runtime", "oci")):
        if host.get(key) == plain:
            host[key] = ""
    host["Binds"] = [_bind(bind) for bind in texts(host.get("Binds"))]
    host["Tmpfs"] = {path: _without(_OF_TMPFS, str(said)) for path, said in mapping(host.get("Tmpfs")).items()}
    host["Ulimits"] = [
        {**each, "Name": str(each.get("Name")).removeprefix("RLIMIT_").lower()}
        for each in mappings(host.get("Ulimits"))
    ]
    if set(texts(host.get("CapDrop"))) == _DROPPED:
        host["CapDrop"] = []
    return replace(
        live,
        image=live.image.removeprefix(_LOCAL),
        config={**live.config, "Env": env, "Image": live.image.removeprefix(_LOCAL)},
        host_config=mapping(host),
    )


def _bind(bind: str) -> str:
    source, _, rest = bind.partition(":")
    target, _, options = rest.partition(":")
    return ":".join(filter(None, (source, target, _without(_OF_MOUNTS, options))))


def _without(own: Iterable[str], options: str) -> str:
    return ",".join(option for option in options.split(",") if option not in own)


_MIB = 1 << 20


@dataclass(frozen=True)
class DeviceMemory:
    """One GPU, or one slice: its memory, in bytes, and who has how much of it."""

    free: int
    exclusive: bool
    """One process at a time computes on it."""
    held: Mapping[str, int] = field(default_factory=dict)
    """By container id; a process whose use is not told counts as nothing."""


def read_device_memory(snapshot: Snapshot) -> Mapping[str, DeviceMemory]:
    """By UUID. What could not be read is absent."""
    found: dict[str, DeviceMemory] = {}
    for gpu in mappings(mapping(snapshot.probe("gpu").value).get("gpus")):
        if "error" not in gpu:
            found.update(_of_memory(gpu))
    return found


def _of_memory(gpu: JsonObject) -> Iterator[tuple[str, DeviceMemory]]:
    processes = list(mappings(gpu.get("processes")))
    exclusive = gpu.get("compute_mode") == "exclusive_process"
    yield (
        str(gpu.get("uuid") or ""),
        DeviceMemory(whole(mapping(gpu.get("memory")).get("free")), exclusive, _held(processes)),
    )
    sizes = {each.get("name"): whole(each.get("memory_mib")) * _MIB for each in mappings(gpu.get("profiles"))}
    for instance in mappings(gpu.get("instances")):
        inside = [each for each in processes if each.get("gpu_instance") == instance.get("id")]
        used = sum(whole(each.get("used_memory")) for each in inside)
        free = max(0, sizes.get(instance.get("profile"), 0) - used)
        for compute in mappings(instance.get("compute_instances")):
            own = [each for each in inside if each.get("compute_instance") in (None, compute.get("id"))]
            yield str(compute.get("uuid") or ""), DeviceMemory(free, exclusive, _held(own))


def _held(processes: list[JsonObject]) -> Mapping[str, int]:
    held: dict[str, int] = {}
    for each in processes:
        if container := str(each.get("container") or ""):
            held[container] = held.get(container, 0) + whole(each.get("used_memory"))
    return held


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
    cgroup_version: str = ""
    """Of the node's control groups: 1 or 2."""
    api: str = ""
    """Newest version of its API, such as 1.41."""
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
            engine=_engine(mapping(value.get("info")), mapping(value.get("version"))),
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


def _engine(info: JsonObject, version: JsonObject) -> ObservedEngine:
    machine = str(info.get("Architecture") or "")
    return ObservedEngine(
        log_driver=str(info.get("LoggingDriver") or ""),
        architecture=_ARCHITECTURES.get(machine, machine),
        memory=whole(info.get("MemTotal")),
        cpus=whole(info.get("NCPU")),
        cgroup_version=str(info.get("CgroupVersion") or ""),
        api=str(version.get("ApiVersion") or ""),
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
