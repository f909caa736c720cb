"""The memory of the GPUs and slices that model servers have, as the node reports it, and who uses how much of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpuplan.nvidia.mig_names import parse_profile
from gpuplan.resources.snapshot.raw import mapping, mappings, whole
from gpuplan.types.address import Address
from gpuplan.types.resource import DiffContext
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import JsonObject

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class Room:
    """The memory of one GPU or slice."""

    total: int
    """Bytes."""
    used: Mapping[str, int] | None = None
    """Bytes by container id, an empty one for processes of no container; None where a process does not say."""

    @property
    def free(self) -> int | None:
        """Bytes that nobody uses; None where that is not known."""
        return None if self.used is None else max(0, self.total - sum(self.used.values()))


@dataclass(frozen=True)
class Profile:
    """A size in which a GPU can be cut."""

    name: str
    slices: int
    memory: int
    """Bytes that the GPU reports, which is less than the name says."""


@dataclass(frozen=True)
class Memory:
    """The memory of a node's GPUs."""

    rooms: Mapping[str, Room] = field(default_factory=dict)
    """By the UUID of a GPU, or of a MIG device."""
    profiles: Mapping[str, tuple[Profile, ...]] = field(default_factory=dict)
    """By the UUID of a GPU."""

    def of(self, device: str, stated: JsonObject | None, context: DiffContext) -> Room | None:
        """The memory of a GPU or slice by its name in the plan file; None where nobody can say.

        Of a slice that is yet to be made it is that of its profile (`stated`), of which nothing is used.
        """
        bound = context.bindings.get(Address(context.node, "gpu", device))
        if isinstance(bound, str):
            return self.rooms.get(bound)
        gpu = context.bindings.get(Address(context.node, "gpu", device.partition("/")[0]))
        if bound is None or stated is None or not isinstance(gpu, str):
            return None
        profile = _meant(self.profiles.get(gpu, ()), stated)
        return Room(profile.memory, {}) if profile else None


def read_memory(snapshot: Snapshot) -> Memory:
    """The memory of a snapshot's GPUs; empty where NVML did not answer."""
    probe = snapshot.probe("gpu")
    if probe.error is not None:
        return Memory()
    gpus = [each for each in mappings(mapping(probe.value).get("gpus")) if "error" not in each]
    rooms = {uuid: room for gpu in gpus for uuid, room in _rooms(gpu)}
    return Memory(rooms, {str(gpu.get("uuid") or ""): _profiles(gpu) for gpu in gpus})


def size(count: int) -> str:
    """Bytes as people read them: ``4 GiB``, ``9.5 GiB``, ``512 MiB``."""
    number, unit = (count / GIB, "GiB") if count >= GIB else (count / MIB, "MiB")
    return f"{round(number, 2):g} {unit}"


def _rooms(gpu: JsonObject) -> Iterator[tuple[str, Room]]:
    processes = mappings(gpu.get("processes")) if not isinstance(gpu.get("processes"), Mapping) else None
    whole_gpu = list(processes) if processes is not None else None
    if mapping(gpu.get("mig")).get("current") is not True:
        yield str(gpu.get("uuid") or ""), Room(whole(mapping(gpu.get("memory")).get("total")), _used(whole_gpu))
        return
    sizes = {whole(each.get("id")): whole(each.get("memory_mib")) * MIB for each in mappings(gpu.get("profiles"))}
    for instance in mappings(gpu.get("instances")):
        here = None if whole_gpu is None else [each for each in whole_gpu if each.get("gpu_instance") == instance["id"]]
        total = sizes.get(whole(instance.get("profile_id")))
        for compute in mappings(instance.get("compute_instances")) if total else ():
            yield str(compute.get("uuid") or ""), Room(total or 0, _used(here))


def _used(processes: list[JsonObject] | None) -> Mapping[str, int] | None:
    if processes is None:
        return None
    found: dict[str, int] = {}
    for each in processes:
        used = each.get("used_memory")
        if not isinstance(used, int):
            return None
        container = str(each.get("container") or "")
        found[container] = found.get(container, 0) + used
    return found


def _profiles(gpu: JsonObject) -> tuple[Profile, ...]:
    return tuple(
        Profile(str(each.get("name") or ""), whole(each.get("slices")), whole(each.get("memory_mib")) * MIB)
        for each in mappings(gpu.get("profiles"))
    )


def _meant(profiles: tuple[Profile, ...], stated: JsonObject) -> Profile | None:
    """The profile that a slice is cut by: by its name, by slices alone, or by what it must hold."""
    needed, name = stated.get("memory"), str(stated.get("profile") or "")
    parts = parse_profile(name)
    plain = [each for each in profiles if "+" not in each.name and "-" not in each.name]
    if isinstance(needed, int):
        fitting = [each for each in plain if each.memory >= needed]
        return min(fitting, key=lambda each: (each.memory, each.slices), default=None)
    if parts is None:
        return None
    if parts.instance:
        return next((each for each in profiles if each.name == parts.instance), None)
    known = [(each, parse_profile(each.name)) for each in profiles]
    alike = [each for each, own in known if own and (each.slices, own.suffix) == (parts.slices, parts.suffix)]
    return min(alike, key=lambda each: each.memory, default=None)
