"""What a snapshot says about a node's GPUs; what could not be read stays an error and never becomes an absence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuplan.resources.gpu.foreign import read_others
from gpuplan.resources.gpu.observed import (
    Compute,
    Container,
    Ecc,
    Gpu,
    Instance,
    LostGpu,
    ObservedGpus,
    Power,
    Process,
    Profile,
    instance_at,
    slice_uuid,
)
from gpuplan.resources.snapshot.devices import Gpus, read_gpus, requested
from gpuplan.resources.snapshot.docker import image_labels, is_copy
from gpuplan.resources.snapshot.labels import NAME, PLAN
from gpuplan.resources.snapshot.raw import mapping, mappings, whole
from gpuplan.types.snapshot import Probe, ProbeError, Snapshot
from gpuplan.types.value import Json, JsonObject

__all__ = [
    "Container",
    "Ecc",
    "Gpu",
    "Instance",
    "LostGpu",
    "ObservedGpus",
    "Power",
    "Process",
    "Profile",
    "instance_at",
    "read",
    "slice_uuid",
]

GUESTS = ("passthrough", "vgpu")
"""Virtualisation modes of a GPU inside a virtual machine, whose hypervisor may refuse a reset."""

WITHOUT_CONTAINERS = ("no_docker", "not_asked")
"""Without an engine nothing runs in it, and it is spared on purpose only while a node boots, when nothing runs yet."""


def read(snapshot: Snapshot) -> ObservedGpus:
    """The read door."""
    containers = _containers(snapshot.probe("docker"), read_gpus(snapshot))
    probe = snapshot.probe("gpu")
    if probe.error is not None:
        return ObservedGpus(snapshot.node, error=probe.error, containers=containers)
    host = _host(snapshot.probe("host"))
    try:
        value = _object(probe.value)
        stated = [_object(each) for each in _list(value["gpus"])]
        return ObservedGpus(
            snapshot.node,
            gpus=tuple(_gpu(each, bool(host.get("hypervisor"))) for each in stated if "error" not in each),
            lost=tuple(LostGpu(_int(each["index"]), _error(each)) for each in stated if "error" in each),
            containers=containers,
            modules=tuple(str(each) for each in _list(host.get("modules", []))),
            left=_left(value.get("stopped_services") or []),
            others=read_others(snapshot.probe("others")),
        )
    except (KeyError, TypeError, ValueError) as fault:
        unexpected = ProbeError(
            "unexpected", f"the answer about GPUs is not in the form of docs/snapshot.md: {fault!r}"
        )
        return ObservedGpus(snapshot.node, error=unexpected, containers=containers)


def _host(probe: Probe) -> JsonObject:
    return probe.value if probe.error is None and isinstance(probe.value, Mapping) else {}


def _left(stopped: Json) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for each in map(_object, _list(stopped)):
        found[str(each["gpu"])] = (*found.get(str(each["gpu"]), ()), str(each["service"]))
    return found


def _gpu(stated: JsonObject, hypervisor: bool) -> Gpu:
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
        holders=_holders(stated.get("holders")),
        architecture=_text(stated.get("architecture")),
        resettable=_resettable(_text(stated.get("virtualization")), hypervisor),
        persistence=_flag(stated.get("persistence_mode")),
        power=_power(stated),
        compute_mode=_text(stated.get("compute_mode")),
        ecc=_ecc(stated.get("ecc")),
    )


def _holders(stated: Json) -> tuple[Process, ...]:
    return tuple(_process(_object(each)) for each in stated) if isinstance(stated, list) else ()


def _resettable(virtualization: str | None, hypervisor: bool) -> bool:
    """NVML's word goes first; where it has none, a GPU under a hypervisor is taken to be passed through."""
    return not hypervisor if virtualization is None else virtualization not in GUESTS


def _power(stated: JsonObject) -> Power | None:
    limit, bounds = stated.get("power_limit_mw"), stated.get("power_limits_mw")
    if limit is None:
        return None
    if bounds is None:
        return Power(_int(limit))
    known = _object(bounds)
    return Power(_int(limit), _int(known["default"]), _int(known["lowest"]), _int(known["highest"]))


def _ecc(stated: Json) -> Ecc | None:
    return None if stated is None else Ecc(bool(_object(stated)["current"]), bool(_object(stated)["pending"]))


def _text(value: Json) -> str | None:
    return None if value is None else str(value)


def _flag(value: Json) -> bool | None:
    return None if value is None else bool(value)


def _profile(stated: JsonObject) -> Profile:
    placements = stated["placements"]
    return Profile(
        id=_int(stated["id"]),
        name=str(stated["name"]),
        slices=_int(stated["slices"]),
        memory_mib=_int(stated["memory_mib"]),
        instances=_int(stated["instances"]),
        placements=None if placements is None else tuple(_pair(each) for each in _list(placements)),
        engines=(_int(stated["decoders"]), _int(stated["encoders"]), _int(stated["jpeg"]), _int(stated["ofa"])),
    )


def _instance(stated: JsonObject) -> Instance:
    return Instance(
        id=_int(stated["id"]),
        profile_id=_int(stated["profile_id"]),
        profile=str(stated["profile"]),
        start=_int(stated["start"]),
        size=_int(stated["size"]),
        computes=tuple(_compute(_object(each)) for each in _list(stated["compute_instances"])),
    )


def _compute(stated: JsonObject) -> Compute:
    uuid = stated["uuid"]
    if not isinstance(uuid, str):
        raise TypeError(f"compute instance {stated['id']!r} has no UUID")
    return Compute(_int(stated["id"]), _int(stated["slices"]), uuid)


def _process(stated: JsonObject) -> Process:
    instance, compute, container = (stated.get(key) for key in ("gpu_instance", "compute_instance", "container"))
    return Process(
        pid=_int(stated["pid"]),
        name=str(stated.get("name") or "?"),
        instance=None if instance is None else _int(instance),
        compute=None if compute is None else _int(compute),
        container=None if container is None else str(container),
        service=str(stated.get("service") or ""),
    )


def _containers(probe: Probe, gpus: Gpus) -> Mapping[str, Container] | ProbeError:
    if probe.error is not None:
        return {} if probe.error.code in WITHOUT_CONTAINERS else probe.error
    stated = probe.value.get("containers") if isinstance(probe.value, Mapping) else None
    if not isinstance(stated, list):
        return ProbeError("unexpected", "the answer about containers is not in the form of docs/snapshot.md")
    runtime = str(mapping(mapping(probe.value).get("info")).get("DefaultRuntime") or "runc")
    brought = image_labels(mapping(probe.value))
    found = [_container(each, runtime, gpus, brought.get(str(each.get("Image")), {})) for each in mappings(stated)]
    return {each.id: each for each in found if each is not None}


def _container(inspect: JsonObject, default_runtime: str, gpus: Gpus, brought: JsonObject) -> Container | None:
    if not mapping(inspect.get("State")).get("Running"):
        return None
    config, host_config = mapping(inspect.get("Config")), mapping(inspect.get("HostConfig"))
    name, labels = str(inspect.get("Name")).lstrip("/"), mapping(config.get("Labels"))
    ours = NAME in labels and not is_copy(name, labels, brought)
    return Container(
        id=str(inspect.get("Id")),
        name=name,
        plan=str(labels.get(PLAN) or "") if ours else "",
        devices=tuple(sorted(requested(config, host_config, default_runtime, gpus))),
        every=any(whole(each.get("Count")) < 0 for each in mappings(host_config.get("DeviceRequests"))),
    )


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
