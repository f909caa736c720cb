"""Compute instances of one slice: which existing one each desired one is, what is destroyed, and what is missing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gpuplan.resources.gpu.observed import ComputeInstance
from gpuplan.types.address import Address


@dataclass(frozen=True)
class ComputePlan:
    """What happens to the compute instances of a slice that stays."""

    sizes: tuple[int, ...]
    """Compute slices of each desired one, by its number."""
    matches: tuple[ComputeInstance | None, ...]
    """The existing one that each desired one is."""
    destroy: tuple[ComputeInstance, ...] = ()

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers of those that are created."""
        return tuple(number for number, match in enumerate(self.matches) if match is None)

    @property
    def in_sync(self) -> bool:
        """Nothing differs."""
        return not self.missing and not self.destroy

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of those that exist, by number."""
        return tuple(match.id for match in self.matches if match is not None)


def plan_compute(
    sizes: Sequence[int],
    existing: Sequence[ComputeInstance],
    recorded_ids: Sequence[int] = (),
    used: Collection[int] = (),
) -> ComputePlan:
    """Match desired and existing compute instances.

    `recorded_ids` are the ids under which they were made, by number; `used` are the ids of those in use, which of equal
    ones are kept first.
    """
    matches: list[ComputeInstance | None] = [None] * len(sizes)
    used_first = sorted(existing, key=lambda compute: (compute.id not in used, compute.id))
    free = {compute.id: compute for compute in used_first}
    for number, (size, id_) in enumerate(zip(sizes, recorded_ids, strict=False)):
        if id_ in free and free[id_].slices == size:
            matches[number] = free.pop(id_)
    for number, size in enumerate(sizes):
        fitting = [compute for compute in free.values() if compute.slices == size]
        if matches[number] is None and fitting:
            matches[number] = free.pop(fitting[0].id)
    destroyed = sorted(free.values(), key=lambda compute: compute.id)
    return ComputePlan(tuple(sizes), tuple(matches), tuple(destroyed))


def compute_address(slice_: Address, number: int, count: int) -> Address:
    """The address of one compute instance: the slice's own if it is the only one, else ``NAME/0`` …"""
    return slice_ if count == 1 else slice_.part(str(number))


def with_compute(sizes: Sequence[int], slices: int) -> str:
    """“ with 1c and 2c”; nothing if one fills the slice, which has so many compute slices."""
    if not sizes:
        return " without a compute instance"
    if list(sizes) == [slices]:
        return ""
    *first, last = (f"{size}c" for size in sizes)
    return f" with {', '.join(first)} and {last}" if first else f" with {last}"
