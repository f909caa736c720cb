"""Compute instances: what a program uses of a GPU instance; one that fills it, or several that share it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from . import nvml as calls
from .failure import Failure
from .instances import compute_handles, compute_profiles, mig_uuids, profile_infos


def fill(nvml: Any, device: Any, instance: Any, sizes: Sequence[int] | None) -> list[str]:
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
