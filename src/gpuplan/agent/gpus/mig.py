"""Changing MIG: mode, and instances at exactly the placement that was planned."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Callable

from ..failure import Failure
from ..world import World
from . import nvml as calls
from .nvml import compute_handles, compute_profiles, mig_uuids, profile_infos
from .toolkit import DIRECTORIES, FILE

# Compute instances: what a program uses of a GPU instance; one that fills it, or several that share it.


def create_compute_instances(nvml: Any, device: Any, instance: Any, sizes: Sequence[int] | None) -> list[str]:
    """Create compute instances of so many slices each; without sizes the one that takes all of the GPU instance.

    Returns the UUIDs of their MIG devices in the order of `sizes`. Where one fails, those before it go again.
    """
    info = nvml.nvmlGpuInstanceGetInfo(instance)
    whole = next(int(each.sliceCount) for each in profile_infos(nvml, device) if each.id == info.profileId)
    wanted = list(sizes) if sizes else [whole]
    profiles: dict[int, int] = {}
    for each in compute_profiles(nvml, instance):
        profiles.setdefault(int(each.sliceCount), int(each.id))  # the plain one comes before its revisions
    for size in wanted:
        if size not in profiles:
            raise Failure("not_supported", "no compute instance profile has {} slices".format(size))
    made: list[tuple[int, Any]] = []
    try:
        for number, start in _in_order(nvml, instance, wanted, profiles):
            made.append((number, calls.create_compute_instance(nvml, instance, profiles[wanted[number]], start)))
        return _uuids(nvml, device, int(info.id), [handle for _, handle in sorted(made, key=lambda one: one[0])])
    except Exception:
        for _, handle in reversed(made):
            nvml.nvmlComputeInstanceDestroy(handle)
        raise


def _uuids(nvml: Any, device: Any, gpu_instance: int, handles: Sequence[Any]) -> list[str]:
    known = mig_uuids(nvml, device)
    found = []
    for handle in handles:
        number = int(nvml.nvmlComputeInstanceGetInfo(handle).id)
        if (gpu_instance, number) not in known:
            raise Failure("unexpected", "compute instance {} has no MIG device".format(number))
        found.append(known[gpu_instance, number])
    return found


def _in_order(
    nvml: Any, instance: Any, wanted: Sequence[int], profiles: dict[int, int]
) -> list[tuple[int, tuple[int, int] | None]]:
    """(number, placement) of each, the largest first; no placements where the driver does not tell them.

    A driver that chooses by itself may put a small one where only the large one could have stood.
    """
    numbers = sorted(range(len(wanted)), key=lambda number: -wanted[number])
    places = {size: calls.compute_placements(nvml, instance, profiles[size]) for size in set(wanted)}
    if all(places.values()):
        taken = set(_taken(nvml, instance))
        for found in _search([places[wanted[number]] for number in numbers], taken):
            return [(number, found[position]) for position, number in enumerate(numbers)]
    return [(number, None) for number in numbers]


def _taken(nvml: Any, instance: Any) -> Iterator[int]:
    for handle, _ in compute_handles(nvml, instance):
        place = nvml.nvmlComputeInstanceGetInfo(handle).placement
        yield from range(int(place.start), int(place.start) + int(place.size))


def _search(choices: Sequence[Sequence[tuple[int, int]]], taken: set[int]) -> Iterator[list[tuple[int, int]]]:
    if not choices:
        yield []
        return
    for start, size in choices[0]:
        cells = set(range(start, start + size))
        if not cells & taken:
            for rest in _search(choices[1:], taken | cells):
                yield [(start, size), *rest]


def set_mode(world: World, uuid: str, enabled: bool) -> dict[str, object]:
    """Set the MIG mode; `status` is NVML's activation status, `current` and `pending` what a second look says."""
    with calls.opened(world) as nvml:
        status = nvml.nvmlDeviceSetMigMode(nvml.nvmlDeviceGetHandleByUUID(uuid), int(enabled))
    with calls.opened(world) as nvml:  # the driver may have reset the GPU: handles from before are void
        current, pending = nvml.nvmlDeviceGetMigMode(nvml.nvmlDeviceGetHandleByUUID(uuid))
    return {"status": int(status), "current": bool(current), "pending": bool(pending)}


def create(
    world: World, uuid: str, profile_id: int, start: int, size: int, compute: Sequence[int] | None
) -> dict[str, object]:
    """Create a GPU instance and what is to be inside it; where the second fails, the first goes again."""
    with calls.opened(world) as nvml:
        device = nvml.nvmlDeviceGetHandleByUUID(uuid)
        instance = calls.create_gpu_instance(nvml, device, profile_id, start, size)
        number = int(nvml.nvmlGpuInstanceGetInfo(instance).id)
        try:
            found = create_compute_instances(nvml, device, instance, compute)
        except (nvml.NVMLError, Failure):
            nvml.nvmlGpuInstanceDestroy(instance)
            raise
    return {"instance": number, "mig_uuid": found[0], "mig_uuids": found}


def create_compute(world: World, uuid: str, instance: int, compute: Sequence[int] | None) -> dict[str, object]:
    """Create compute instances in a GPU instance that stands."""
    with calls.opened(world) as nvml:
        device = nvml.nvmlDeviceGetHandleByUUID(uuid)
        found = create_compute_instances(nvml, device, nvml.nvmlDeviceGetGpuInstanceById(device, instance), compute)
    return {"mig_uuid": found[0], "mig_uuids": found}


def destroy_compute(
    world: World, uuid: str, instance: int, profile_id: int, start: int, compute: int
) -> dict[str, object]:
    """Destroy one compute instance; `in_use` before anything is touched where a process runs in it."""
    with calls.opened(world) as nvml:
        device = nvml.nvmlDeviceGetHandleByUUID(uuid)
        handle = _meant(nvml, device, instance, profile_id, start)
        place = (instance, compute)
        _refuse_if_busy(nvml, device, lambda each: (each.gpuInstanceId, each.computeInstanceId) == place)
        for inside, _ in compute_handles(nvml, handle):
            if int(nvml.nvmlComputeInstanceGetInfo(inside).id) == compute:
                nvml.nvmlComputeInstanceDestroy(inside)
                return {}
    raise Failure("not_found", "instance {} has no compute instance {}".format(instance, compute))


def destroy(world: World, uuid: str, instance: int, profile_id: int, start: int) -> dict[str, object]:
    """Destroy a GPU instance with what is in it; `in_use` before anything is touched where a process runs there."""
    with calls.opened(world) as nvml:
        device = nvml.nvmlDeviceGetHandleByUUID(uuid)
        handle = _meant(nvml, device, instance, profile_id, start)
        _refuse_if_busy(nvml, device, lambda each: each.gpuInstanceId == instance)
        for inside, _ in compute_handles(nvml, handle):
            nvml.nvmlComputeInstanceDestroy(inside)
        nvml.nvmlGpuInstanceDestroy(handle)
    return {}


def _meant(nvml: Any, device: Any, instance: int, profile_id: int, start: int) -> Any:
    handle = nvml.nvmlDeviceGetGpuInstanceById(device, instance)
    info = nvml.nvmlGpuInstanceGetInfo(handle)
    if (info.profileId, info.placement.start) != (profile_id, start):
        raise Failure("moved", "instance {} was replaced by another one".format(instance))
    return handle


def _refuse_if_busy(nvml: Any, device: Any, runs_there: Callable[[Any], bool]) -> None:
    busy = [process.pid for process in _processes(nvml, device) if runs_there(process)]
    if busy:
        raise Failure("in_use", "in use by processes: {}".format(", ".join(map(str, busy))))


def _processes(nvml: Any, device: Any) -> list[Any]:
    found: list[Any] = list(nvml.nvmlDeviceGetComputeRunningProcesses(device))
    try:
        found += nvml.nvmlDeviceGetGraphicsRunningProcesses(device)
    except nvml.NVMLError as error:
        if not calls.absent(error):
            raise
    return found


WRITING = 60.0
"""Seconds that nvidia-ctk may take; it asks the driver for each device."""
LISTING = 30.0
"""Seconds that nvidia-smi may take."""
LONGEST_MESSAGE = 2000
"""Characters of nvidia-ctk's output that are reported."""


def generate_cdi(world: World, path: str) -> dict[str, object]:
    """Have nvidia-ctk write a specification of what is there now.

    nvidia-smi goes first: it makes the device files of new slices, and without them the specification lacks those
    (NVIDIA/mig-parted#82). Raises Failure: `invalid`, `no_tool`, `timeout`, or `unexpected` with what nvidia-ctk said.
    """
    directory, name = os.path.split(path)
    if directory not in DIRECTORIES or not FILE.match(name):
        raise Failure("invalid", "not the path of a CDI specification: {!r}".format(path))
    try:
        world.run(["nvidia-smi", "-L"], LISTING)
    except Failure as failure:
        if failure.code != "no_tool":
            raise
    code, said = world.run(["nvidia-ctk", "cdi", "generate", "--output={}".format(path)], WRITING)
    if code:
        raise Failure("unexpected", "nvidia-ctk: {}".format(said[-LONGEST_MESSAGE:] or "exit code {}".format(code)))
    return {}
