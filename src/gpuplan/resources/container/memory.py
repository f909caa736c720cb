"""Memory: what each GPU and slice of a node has free, what each container holds of it, and where two find no room."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from gpuplan.resources.snapshot.raw import mapping, mappings, whole
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import JsonObject

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
            found.update(_of(gpu))
    return found


def why_no_room(container: str, uuids: Collection[str], there: Mapping[str, DeviceMemory]) -> Iterator[str]:
    """Why a second one like this container has no room beside it, for each of these devices that has none."""
    for uuid in sorted(uuids):
        device = there.get(uuid)
        if device is None:
            continue
        used = device.held.get(container, 0)
        if device.exclusive and used:
            yield f"{uuid} is in compute mode exclusive_process, so that no second process can use it"
        elif used > device.free:
            yield f"the old one holds {_shown(used)} of {uuid}, and {_shown(device.free)} are free there"


def _of(gpu: JsonObject) -> Iterator[tuple[str, DeviceMemory]]:
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


def _shown(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
