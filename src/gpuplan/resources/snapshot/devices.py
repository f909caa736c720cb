"""Devices: the physical GPUs and slices behind the many ways in which Docker is asked for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import JsonObject, integer, mapping, mappings, sequence, texts

_NONE = ("", "void", "none")
_OLD_MIG = re.compile(r"^MIG-(GPU-[0-9a-f-]+)/(\d+)/(\d+)$")
"""The name of a MIG device before driver R470: GPU, GPU instance, compute instance."""
_CDI = re.compile(r"^nvidia\.com/(?:gpu|mig)=(?:(?:gpu|mig)(?=\d))?(.+)$")
"""A device by index is called 0, gpu0, 0:1 or mig0:1 (nvidia-ctk cdi generate --device-name-strategy)."""


@dataclass(frozen=True)
class MigDevice:
    """One MIG device."""

    uuid: str
    instance: int
    compute_instance: int


@dataclass(frozen=True)
class NodeGpu:
    """One GPU; with MIG mode on it is used through its slices."""

    index: int
    uuid: str
    pci: str
    mig: bool
    slices: tuple[MigDevice, ...]

    @property
    def usable(self) -> tuple[str, ...]:
        """What `all` gives of it."""
        return tuple(each.uuid for each in self.slices) if self.mig else (self.uuid,)


@dataclass(frozen=True)
class NodeGpus:
    """The GPUs of a node; not `known` where NVML did not answer for all of them."""

    gpus: tuple[NodeGpu, ...] = ()
    known: bool = False

    @property
    def uuids(self) -> frozenset[str]:
        """Every device that a container can be given."""
        return frozenset(uuid for gpu in self.gpus for uuid in (gpu.uuid, *(each.uuid for each in gpu.slices)))

    def resolve(self, name: str) -> Iterator[str]:
        """UUIDs of what an id names: UUID, index, ``0:1``, PCI address, ``all``; an unknown name stays as it is."""
        plain = match[1] if (match := _CDI.match(name)) else name
        if plain == "all":
            yield from (uuid for gpu in self.gpus for uuid in gpu.usable)
            return
        yield next((uuid for gpu in self.gpus for uuid in (_within(gpu, plain),) if uuid), plain)


def read_gpus(snapshot: Snapshot) -> NodeGpus:
    """The GPUs of a snapshot."""
    probe = snapshot.probe("gpu")
    if probe.error is not None:
        return NodeGpus()
    raw = list(mappings(mapping(probe.value).get("gpus")))
    answered = [each for each in raw if "error" not in each]
    return NodeGpus(tuple(map(_gpu, answered)), known=len(answered) == len(raw) and all(map(_slices_known, answered)))


def requested_devices(
    config: JsonObject, host_config: JsonObject, default_runtime: str, gpus: NodeGpus
) -> frozenset[str]:
    """The physical devices that a container of this inspect data has, however it asked for them."""
    found: set[str] = set()
    for request in mappings(host_config.get("DeviceRequests")):
        for name in _names(request):
            found.update(gpus.resolve(name))
    for device in mappings(host_config.get("Devices")):
        if _CDI.match(path := str(device.get("PathOnHost", ""))):
            found.update(gpus.resolve(path))
    runtime = str(host_config.get("Runtime") or default_runtime)
    if not found and runtime.startswith("nvidia"):
        for name in _visible(config):
            found.update(gpus.resolve(name))
    return frozenset(found)


def requested_names(config: JsonObject, host_config: JsonObject, default_runtime: str) -> tuple[str, ...]:
    """The names by which a container asks for devices: UUIDs, indices, or ``all``."""
    names = [name for request in mappings(host_config.get("DeviceRequests")) for name in _names(request)]
    paths = (str(device.get("PathOnHost", "")) for device in mappings(host_config.get("Devices")))
    names += [path for path in paths if is_cdi(path)]
    runtime = str(host_config.get("Runtime") or default_runtime)
    if not names and runtime.startswith("nvidia"):
        names += _visible(config)
    return tuple(name.rpartition("=")[2] for name in names)


def is_cdi(path: str) -> bool:
    """True for a CDI name of a GPU or slice, which some engines write where the path of a device stands."""
    return _CDI.match(path) is not None


def environment(config: JsonObject) -> Mapping[str, str]:
    """The environment of a container or image, as it states it; a name without a value is not set."""
    return dict(line.split("=", 1) for line in texts(config.get("Env")) if "=" in line)


def _names(request: JsonObject) -> tuple[str, ...]:
    """Docker gives the first `Count` GPUs, or all for -1, to a request without ids (moby, daemon/nvidia_linux.go)."""
    wanted = {str(name) for group in sequence(request.get("Capabilities")) for name in sequence(group)}
    driver = str(request.get("Driver") or "")
    if driver not in ("", "nvidia", "cdi") or (not driver and "gpu" not in wanted):
        return ()
    if ids := texts(request.get("DeviceIDs")):
        return ids
    count = integer(request.get("Count"))
    return ("all",) if count < 0 else tuple(str(index) for index in range(count))


def _visible(config: JsonObject) -> tuple[str, ...]:
    value = environment(config).get("NVIDIA_VISIBLE_DEVICES", "")
    return tuple(name for each in value.split(",") if (name := each.strip()) not in _NONE)


def _within(gpu: NodeGpu, name: str) -> str:
    names = {gpu.uuid: gpu.uuid, str(gpu.index): gpu.uuid, gpu.pci.lower(): gpu.uuid}
    for number, each in enumerate(gpu.slices):
        names[each.uuid] = each.uuid
        names[f"{gpu.index}:{number}"] = each.uuid
    if match := _OLD_MIG.match(name):
        ids = (match[1], int(match[2]), int(match[3]))
        return next((s.uuid for s in gpu.slices if (gpu.uuid, s.instance, s.compute_instance) == ids), "")
    return names.get(name) or names.get(name.lower(), "")


def _slices_known(raw: JsonObject) -> bool:
    return not isinstance(raw.get("instances"), Mapping)


def _gpu(raw: JsonObject) -> NodeGpu:
    slices = [
        MigDevice(str(each.get("uuid") or ""), integer(instance.get("id")), integer(each.get("id")))
        for instance in mappings(raw.get("instances"))
        for each in mappings(instance.get("compute_instances"))
    ]
    return NodeGpu(
        index=integer(raw.get("index")),
        uuid=str(raw.get("uuid", "")),
        pci=str(raw.get("pci", "")),
        mig=mapping(raw.get("mig")).get("current") is True,
        slices=tuple(sorted(slices, key=lambda each: (each.instance, each.compute_instance))),
    )
