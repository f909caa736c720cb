"""Compute instances inside one slice: which live one each wanted one is, what goes, and what is missing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gpuplan.resources.gpu.desired import SliceSpec
from gpuplan.resources.gpu.observed import Compute, Instance
from gpuplan.types.address import Address


@dataclass(frozen=True)
class Inside:
    """What becomes of the compute instances of a slice that stays."""

    sizes: tuple[int, ...]
    """Compute slices of each wanted one, by its number."""
    there: tuple[Compute | None, ...]
    """The live one that each wanted one is."""
    going: tuple[Compute, ...] = ()

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers of those that are to be created."""
        return tuple(number for number, one in enumerate(self.there) if one is None)

    @property
    def right(self) -> bool:
        """Nothing differs."""
        return not self.missing and not self.going

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of all wanted ones, where all are there."""
        return tuple(one.id for one in self.there if one is not None)


def inside(
    sizes: Sequence[int], computes: Sequence[Compute], known: Sequence[int] = (), held: Collection[int] = ()
) -> Inside:
    """Pair wanted and live compute instances.

    `known` are the ids under which they were made, by number; `held` are the ids of those that somebody uses, which of
    equal ones are kept first.
    """
    there: list[Compute | None] = [None] * len(sizes)
    free = {one.id: one for one in sorted(computes, key=lambda one: (one.id not in held, one.id))}
    for number, (size, id_) in enumerate(zip(sizes, known, strict=False)):
        if id_ in free and free[id_].slices == size:
            there[number] = free.pop(id_)
    for number, size in enumerate(sizes):
        fitting = [one.id for one in free.values() if one.slices == size]
        if there[number] is None and fitting:
            there[number] = free.pop(fitting[0])
    return Inside(tuple(sizes), tuple(there), tuple(sorted(free.values(), key=lambda one: one.id)))


def sizes_of(wanted: SliceSpec, slices: int) -> tuple[int, ...]:
    """Compute slices of each wanted compute instance of a slice that has so many."""
    return wanted.compute or (slices,)


def part_of(slice_: Address, number: int, all_of_them: Sequence[object]) -> Address:
    """How one compute instance is addressed: by the slice's own name where it is the only one, else ``NAME/0`` …"""
    return slice_ if len(all_of_them) == 1 else slice_.part(str(number))


def shown(instance: Instance, slices: int) -> str:
    """“3g.40gb at 4”, “3g.40gb at 4 with 1c and 2c” or “3g.40gb at 4 without a compute instance”."""
    return f"{instance}{with_compute([one.slices for one in instance.computes], slices)}"


def with_compute(sizes: Sequence[int], slices: int) -> str:
    """“ with 1c and 2c”; nothing where one fills the slice."""
    if not sizes:
        return " without a compute instance"
    if list(sizes) == [slices]:
        return ""
    *first, last = (f"{size}c" for size in sizes)
    return f" with {', '.join(first)} and {last}" if first else f" with {last}"
