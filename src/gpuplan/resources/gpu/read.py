"""Read a node's GPUs from its snapshot; what could not be read stays an error and never becomes an absence.

The form of the `gpu`, `docker`, `host` and `others` probes is in docs/snapshot.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuplan.resources.gpu.observed import (
    ComputeInstance,
    GpuContainer,
    GpuInstance,
    MigProfile,
    ObservedGpu,
    ObservedGpus,
    ObservedProcess,
    OtherPlans,
    OtherPlanSlice,
    Placement,
    PowerLimitRange,
    UnreadableGpu,
)
from gpuplan.resources.gpu.settings import read_settings
from gpuplan.resources.snapshot.containers import NAME, PLAN, image_labels, is_copy
from gpuplan.resources.snapshot.devices import NodeGpus, read_gpus, requested_devices
from gpuplan.types.address import parse_address
from gpuplan.types.snapshot import Probe, ProbeError, Snapshot
from gpuplan.types.value import Json, JsonObject, as_list, as_object, integer, mapping, mappings

GUEST_MODES = ("passthrough", "vgpu")
"""Virtualisation modes of a GPU inside a virtual machine, whose hypervisor may refuse a reset."""

WITHOUT_CONTAINERS = ("no_docker", "not_asked")
"""Without Docker no container runs; Docker is not asked only while a node boots, before any container runs."""


def read(snapshot: Snapshot) -> ObservedGpus:
    """Read the GPUs, who uses them, and what other plan files made on them. Never raises."""
    containers = _read_containers(snapshot.probe("docker"), read_gpus(snapshot))
    probe = snapshot.probe("gpu")
    if probe.error is not None:
        return ObservedGpus(snapshot.node, error=probe.error, containers=containers)
    host_probe = snapshot.probe("host")
    host = mapping(host_probe.value) if host_probe.error is None else {}
    try:
        value = as_object(probe.value)
        gpus = [as_object(gpu) for gpu in as_list(value["gpus"])]
        return ObservedGpus(
            snapshot.node,
            gpus=tuple(_read_gpu(gpu, bool(host.get("hypervisor"))) for gpu in gpus if "error" not in gpu),
            unreadable=tuple(UnreadableGpu(_int(gpu["index"]), _error(gpu)) for gpu in gpus if "error" in gpu),
            containers=containers,
            modules=tuple(str(module) for module in as_list(host.get("modules", []))),
            stopped_services=_read_stopped_services(value.get("stopped_services") or []),
            other_plans=read_other_plans(snapshot.probe("others")),
        )
    except (KeyError, TypeError, ValueError) as error:
        unexpected = ProbeError("unexpected", f"the reported GPUs do not have the form of docs/snapshot.md: {error!r}")
        return ObservedGpus(snapshot.node, error=unexpected, containers=containers)


def _read_stopped_services(stopped: Json) -> Mapping[str, tuple[str, ...]]:
    services: dict[str, tuple[str, ...]] = {}
    for entry in map(as_object, as_list(stopped)):
        services[str(entry["gpu"])] = (*services.get(str(entry["gpu"]), ()), str(entry["service"]))
    return services


def _read_gpu(raw: JsonObject, hypervisor: bool) -> ObservedGpu:
    mig, ecc, limits = as_object(raw["mig"]), raw.get("ecc"), raw.get("power_limits_mw")
    instances, processes = raw["instances"], raw["processes"]
    return ObservedGpu(
        index=_int(raw["index"]),
        uuid=str(raw["uuid"]),
        pci=str(raw["pci"]),
        name=str(raw["name"]),
        mig_supported=bool(mig["supported"]),
        mig_enabled=bool(mig["current"]),
        mig_pending=bool(mig["pending"]),
        profiles=tuple(_read_profile(as_object(profile)) for profile in as_list(raw["profiles"])),
        instances=_error(instances) if isinstance(instances, Mapping) else _read_instances(instances),
        processes=_error(processes) if isinstance(processes, Mapping) else _read_processes(processes),
        holders=_read_processes(raw.get("holders") or []),
        architecture=_text(raw.get("architecture")),
        resettable=_is_resettable(_text(raw.get("virtualization")), hypervisor),
        settings=read_settings(raw),
        power_limits=None if limits is None else _read_power_limits(as_object(limits)),
        ecc_pending=None if ecc is None else bool(as_object(ecc)["pending"]),
    )


def _is_resettable(virtualization: str | None, hypervisor: bool) -> bool:
    """As NVML reports; if it reports nothing, a GPU under a hypervisor is taken to be passed through."""
    return not hypervisor if virtualization is None else virtualization not in GUEST_MODES


def _read_power_limits(raw: JsonObject) -> PowerLimitRange:
    return PowerLimitRange(_int(raw["default"]), _int(raw["lowest"]), _int(raw["highest"]))


def _read_profile(raw: JsonObject) -> MigProfile:
    placements = raw["placements"]
    return MigProfile(
        id=_int(raw["id"]),
        name=str(raw["name"]),
        slices=_int(raw["slices"]),
        memory_mib=_int(raw["memory_mib"]),
        instances=_int(raw["instances"]),
        placements=None if placements is None else tuple(_read_placement(pair) for pair in as_list(placements)),
        engines=(_int(raw["decoders"]), _int(raw["encoders"]), _int(raw["jpeg"]), _int(raw["ofa"])),
    )


def _read_instances(raw: Json) -> tuple[GpuInstance, ...]:
    return tuple(_read_instance(as_object(instance)) for instance in as_list(raw))


def _read_instance(raw: JsonObject) -> GpuInstance:
    return GpuInstance(
        id=_int(raw["id"]),
        profile_id=_int(raw["profile_id"]),
        profile=str(raw["profile"]),
        start=_int(raw["start"]),
        size=_int(raw["size"]),
        compute_instances=tuple(_read_compute(as_object(compute)) for compute in as_list(raw["compute_instances"])),
    )


def _read_compute(raw: JsonObject) -> ComputeInstance:
    uuid = raw["uuid"]
    if not isinstance(uuid, str):
        raise TypeError(f"compute instance {raw['id']!r} has no UUID")
    return ComputeInstance(_int(raw["id"]), _int(raw["slices"]), uuid)


def _read_processes(raw: Json) -> tuple[ObservedProcess, ...]:
    return tuple(_read_process(as_object(process)) for process in as_list(raw))


def _read_process(raw: JsonObject) -> ObservedProcess:
    instance, compute = raw.get("gpu_instance"), raw.get("compute_instance")
    return ObservedProcess(
        pid=_int(raw["pid"]),
        name=str(raw.get("name") or "?"),
        gpu_instance=None if instance is None else _int(instance),
        compute_instance=None if compute is None else _int(compute),
        container=_text(raw.get("container")),
        service=str(raw.get("service") or ""),
    )


def _read_containers(probe: Probe, gpus: NodeGpus) -> Mapping[str, GpuContainer] | ProbeError:
    if probe.error is not None:
        return {} if probe.error.code in WITHOUT_CONTAINERS else probe.error
    raw = mapping(probe.value)
    if not isinstance(raw.get("containers"), list):
        return ProbeError("unexpected", "the reported containers do not have the form of docs/snapshot.md")
    runtime, labels = str(mapping(raw.get("info")).get("DefaultRuntime") or "runc"), image_labels(raw)
    containers = [
        _read_container(inspect, runtime, gpus, labels.get(str(inspect.get("Image")), {}))
        for inspect in mappings(raw["containers"])
        if mapping(inspect.get("State")).get("Running")
    ]
    return {container.id: container for container in containers}


def _read_container(inspect: JsonObject, runtime: str, gpus: NodeGpus, image_labels: JsonObject) -> GpuContainer:
    config, host_config = mapping(inspect.get("Config")), mapping(inspect.get("HostConfig"))
    name, labels = str(inspect.get("Name")).lstrip("/"), mapping(config.get("Labels"))
    managed = NAME in labels and not is_copy(name, labels, image_labels)
    requests = mappings(host_config.get("DeviceRequests"))
    return GpuContainer(
        id=str(inspect.get("Id")),
        name=name,
        plan=str(labels.get(PLAN) or "") if managed else "",
        devices=tuple(sorted(requested_devices(config, host_config, runtime, gpus))),
        all_gpus=any(integer(request.get("Count")) < 0 for request in requests),
    )


def read_other_plans(probe: Probe) -> OtherPlans:
    """The slices in other plan files' records; a record that cannot be read leaves the others known."""
    if probe.error is not None:
        return OtherPlans(error=probe.error)
    if not isinstance(probe.value, Mapping):
        return OtherPlans(error=ProbeError("unexpected", "the records do not have the form of docs/snapshot.md"))
    slices: list[OtherPlanSlice] = []
    error: ProbeError | None = None
    for plan, record in probe.value.items():
        try:
            slices.extend(_read_other_slices(plan, record))
        except (KeyError, TypeError, ValueError) as malformed:
            reported = mapping(mapping(record).get("error")).get("text")
            reason = repr(malformed) if reported is None else str(reported)
            error = ProbeError("bad_record", f"the record of the plan file {plan} cannot be read ({reason})")
    return OtherPlans(tuple(slices), error)


def _read_other_slices(plan: str, record: Json) -> Iterator[OtherPlanSlice]:
    for address, fact in as_object(as_object(record)["remembered"]).items():
        known = as_object(fact)
        if parse_address(address).kind == "gpu" and "start" in known:
            yield OtherPlanSlice(plan, str(known["gpu"]), str(known["profile"]), int(str(known["start"])))


def _error(raw: JsonObject) -> ProbeError:
    error = as_object(raw["error"])
    return ProbeError(str(error["code"]), str(error["text"]))


def _read_placement(value: Json) -> Placement:
    start, size = as_list(value)
    return _int(start), _int(size)


def _text(value: Json) -> str | None:
    return None if value is None else str(value)


def _int(value: Json) -> int:
    if not isinstance(value, int):
        raise TypeError(f"expected a number, found {value!r}")
    return value
