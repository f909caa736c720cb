"""What a snapshot says about a node's GPUs; what could not be read stays an error and never becomes an absence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuplan.model.snapshot import Probe, ProbeError, Snapshot
from gpuplan.model.value import Json, JsonObject


@dataclass(frozen=True)
class Profile:
    """One GPU instance profile that a GPU offers."""

    id: int
    name: str
    slices: int
    memory_mib: int
    instances: int
    """How many the GPU holds at most."""
    placements: tuple[tuple[int, int], ...] | None
    """(start, size) in memory slices; None while MIG mode is off, since NVML then refuses to say."""


@dataclass(frozen=True)
class Instance:
    """One live GPU instance."""

    id: int
    profile_id: int
    profile: str
    start: int
    size: int
    devices: tuple[str, ...]
    """UUIDs of the MIG devices of its compute instances; empty where it has none, which is a fault."""

    def __str__(self) -> str:
        return f"{self.profile} at {self.start}"


@dataclass(frozen=True)
class Process:
    """One process that has a GPU, or a slice of it, open."""

    pid: int
    name: str
    instance: int | None
    """Id of the GPU instance."""
    container: str | None
    """Full id of the container that it runs in."""


@dataclass(frozen=True)
class Gpu:
    """One physical GPU."""

    index: int
    uuid: str
    pci: str
    name: str
    supported: bool
    """It has MIG at all."""
    current: bool
    pending: bool
    """MIG mode after the next reset; where it is not the current one the GPU waits for a reset."""
    profiles: tuple[Profile, ...]
    instances: tuple[Instance, ...] | ProbeError
    processes: tuple[Process, ...] | ProbeError

    def profile(self, name: str) -> Profile | None:
        """The profile of that name on this GPU."""
        return next((profile for profile in self.profiles if profile.name == name), None)


@dataclass(frozen=True)
class LostGpu:
    """A GPU that is there and does not answer."""

    index: int
    error: ProbeError


@dataclass(frozen=True)
class Container:
    """A running container, as far as it matters to GPUs."""

    id: str
    name: str
    plan: str
    """The plan file that made it; empty where none did."""
    devices: tuple[str, ...]
    """The GPUs and slices that it asked for, as written: UUIDs or indices."""
    every: bool
    """It asked for all GPUs."""


@dataclass(frozen=True)
class ObservedGpus:
    """All GPUs of one node."""

    node: str
    gpus: tuple[Gpu, ...] = ()
    lost: tuple[LostGpu, ...] = ()
    error: ProbeError | None = None
    """Why nothing is known of the GPUs."""
    containers: Mapping[str, Container] = field(default_factory=dict)
    """Running containers by id; empty where the engine did not answer, so that every holder counts as a stranger."""

    def gpu(self, uuid: str) -> Gpu | None:
        """The GPU of that UUID, if it was read."""
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)


def read(snapshot: Snapshot) -> ObservedGpus:
    """The read door."""
    containers = _containers(snapshot.probe("docker"))
    probe = snapshot.probe("gpu")
    if probe.error is not None:
        return ObservedGpus(snapshot.node, error=probe.error, containers=containers)
    try:
        stated = [_object(each) for each in _list(_object(probe.value)["gpus"])]
        return ObservedGpus(
            snapshot.node,
            gpus=tuple(_gpu(each) for each in stated if "error" not in each),
            lost=tuple(LostGpu(_int(each["index"]), _error(each)) for each in stated if "error" in each),
            containers=containers,
        )
    except (KeyError, TypeError, ValueError) as fault:
        unexpected = ProbeError(
            "unexpected", f"the answer about GPUs is not in the form of docs/snapshot.md: {fault!r}"
        )
        return ObservedGpus(snapshot.node, error=unexpected, containers=containers)


def slice_uuid(observed: ObservedGpus, gpu_uuid: str, profile: str, start: int) -> str | None:
    """The UUID of the MIG device at that place; None where no such slice stands there or it has no compute instance."""
    gpu = observed.gpu(gpu_uuid)
    instance = None if gpu is None else instance_at(gpu, profile, start)
    return instance.devices[0] if instance is not None and instance.devices else None


def instance_at(gpu: Gpu, profile: str, start: int) -> Instance | None:
    """The live instance of that profile at that place."""
    live = () if isinstance(gpu.instances, ProbeError) else gpu.instances
    return next((each for each in live if (each.profile, each.start) == (profile, start)), None)


def _gpu(stated: JsonObject) -> Gpu:
    mig = _object(stated["mig"])
    return Gpu(
        index=_int(stated["index"]),
        uuid=str(stated["uuid"]),
        pci=str(stated["pci"]),
        name=str(stated["name"]),
        supported=bool(mig["supported"]),
        current=bool(mig["current"]),
        pending=bool(mig["pending"]),
        profiles=tuple(_profile(_object(each)) for each in _list(stated["profiles"])),
        instances=_or_error(stated["instances"])
        or tuple(_instance(_object(each)) for each in _list(stated["instances"])),
        processes=_or_error(stated["processes"])
        or tuple(_process(_object(each)) for each in _list(stated["processes"])),
    )


def _profile(stated: JsonObject) -> Profile:
    placements = stated["placements"]
    return Profile(
        id=_int(stated["id"]),
        name=str(stated["name"]),
        slices=_int(stated["slices"]),
        memory_mib=_int(stated["memory_mib"]),
        instances=_int(stated["instances"]),
        placements=None if placements is None else tuple(_pair(each) for each in _list(placements)),
    )


def _instance(stated: JsonObject) -> Instance:
    return Instance(
        id=_int(stated["id"]),
        profile_id=_int(stated["profile_id"]),
        profile=str(stated["profile"]),
        start=_int(stated["start"]),
        size=_int(stated["size"]),
        devices=tuple(_device(_object(each)) for each in _list(stated["compute_instances"])),
    )


def _device(stated: JsonObject) -> str:
    uuid = stated["uuid"]
    if not isinstance(uuid, str):
        raise TypeError(f"compute instance {stated['id']!r} has no UUID")
    return uuid


def _process(stated: JsonObject) -> Process:
    instance, container = stated.get("gpu_instance"), stated.get("container")
    return Process(
        pid=_int(stated["pid"]),
        name=str(stated.get("name") or "?"),
        instance=None if instance is None else _int(instance),
        container=None if container is None else str(container),
    )


def _containers(probe: Probe) -> Mapping[str, Container]:
    value = probe.value if probe.error is None and isinstance(probe.value, Mapping) else {}
    stated = value.get("containers")
    found = [_container(each) for each in stated or () if isinstance(each, Mapping)] if isinstance(stated, list) else []
    return {each.id: each for each in found if each is not None}


def _container(inspect: JsonObject) -> Container | None:
    if not _within(inspect, "State").get("Running"):
        return None
    labels = _within(_within(inspect, "Config"), "Labels")
    requests = _within(inspect, "HostConfig").get("DeviceRequests")
    asked = [each for each in requests if isinstance(each, Mapping)] if isinstance(requests, list) else []
    return Container(
        id=str(inspect.get("Id")),
        name=str(inspect.get("Name")).lstrip("/"),
        plan=str(labels.get("gpuplan.plan") or ""),
        devices=tuple(str(device) for each in asked for device in _devices(each)),
        every=any(each.get("Count") == -1 for each in asked),
    )


def _devices(request: JsonObject) -> Sequence[Json]:
    devices = request.get("DeviceIDs")
    return devices if isinstance(devices, list) else ()


def _within(value: JsonObject, key: str) -> JsonObject:
    inner = value.get(key)
    return inner if isinstance(inner, Mapping) else {}


def _or_error(value: Json) -> ProbeError | None:
    return _error(value) if isinstance(value, Mapping) else None


def _error(value: JsonObject) -> ProbeError:
    error = _object(value["error"])
    return ProbeError(str(error["code"]), str(error["text"]))


def _pair(value: Json) -> tuple[int, int]:
    start, size = _list(value)
    return _int(start), _int(size)


def _int(value: Json) -> int:
    if not isinstance(value, int):
        raise TypeError(f"expected a number, found {value!r}")
    return value


def _object(value: Json) -> JsonObject:
    if not isinstance(value, Mapping):
        raise TypeError(f"expected an object, found {type(value).__name__}")
    return value


def _list(value: Json) -> Sequence[Json]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"expected a list, found {type(value).__name__}")
    return value
