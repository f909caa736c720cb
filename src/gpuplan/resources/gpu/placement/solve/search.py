"""Search: all places for a set of profiles on a GPU, in machine words, so that every board is solved at once.

Memory slices are the bits of one number. Everything that is counted (instances of each profile, compute slices, media
engines) is a field of another: fields are added together, and a borrow from a field's highest bit tells that it ran
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from gpuplan.resources.gpu.placement.solve.geometry import Geometry, Shape

_WIDTH = 16
_TOP = 1 << (_WIDTH - 1)

Packing: TypeAlias = tuple[tuple[str, int], ...]
"""(profile, start) of instances that stand beside one another."""


class Table:
    """One geometry, made ready to be searched; what was once found out about it is kept."""

    def __init__(self, geometry: Geometry) -> None:
        self.shapes = sorted(geometry.shapes, key=lambda shape: (-shape.size, -shape.slices, shape.name))
        """The largest first."""
        self._rank = {shape.name: number for number, shape in enumerate(self.shapes)}
        self._windows = [
            [(start, cells(start, size)) for start, size in sorted(each.placements)] for each in self.shapes
        ]
        self._fields = [self._fields_of(shape) for shape in self.shapes]
        limits = [*(shape.instances for shape in self.shapes), *geometry.capacity]
        self._limit = sum((_TOP + limit) << _WIDTH * number for number, limit in enumerate(limits))
        self._packings: dict[tuple[tuple[int, ...], int, int], tuple[Packing, ...]] = {}
        self._windows_left: dict[int, tuple[int, ...]] = {}
        self._budget_left: dict[int, tuple[int, ...]] = {}
        self.whole = cells(0, geometry.memory)
        self.draws = {shape.name: self._packed(fields) for shape, fields in zip(self.shapes, self._fields, strict=True)}
        """Profile → what one instance draws from the budget."""
        self._guards = {
            shape.name: self._packed([(number, _TOP) for number, _ in fields])
            for shape, fields in zip(self.shapes, self._fields, strict=True)
        }

    def affords(self, used: int, profiles: Iterable[str]) -> bool:
        """True where a budget of which `used` is drawn lacks nothing that instances of `profiles` draw."""
        guards = 0
        for profile in profiles:
            guards |= self._guards[profile]
        return (self._limit - used) & guards == guards

    def packings(self, profiles: Iterable[str], free: int) -> tuple[Packing, ...]:
        """Every way to place instances of the profiles on free memory slices, the lowest starts of the largest first.

        Those of one profile are by ascending start, since swapping them is no other way.
        """
        return self._packed_into(tuple(sorted(self._rank[profile] for profile in profiles)), free)

    def room(self, taken: int, used: int) -> tuple[int, ...]:
        """For each profile, the largest first, how many more the GPU would hold if nothing else came."""
        if taken not in self._windows_left:
            self._windows_left[taken] = tuple(_fit(windows, taken) for windows in self._windows)
        if used not in self._budget_left:
            self._budget_left[used] = tuple(self._budget(fields, used) for fields in self._fields)
        return tuple(map(min, self._windows_left[taken], self._budget_left[used]))

    def _fields_of(self, shape: Shape) -> list[tuple[int, int]]:
        """(field, amount) of all that an instance draws."""
        first = len(self.shapes)
        engines = [(first + number, amount) for number, amount in enumerate(shape.demands) if amount]
        return [(self._rank[shape.name], 1), *engines]

    @staticmethod
    def _packed(fields: Sequence[tuple[int, int]]) -> int:
        return sum(amount << _WIDTH * number for number, amount in fields)

    def _budget(self, fields: Sequence[tuple[int, int]], used: int) -> int:
        left = self._limit - used
        return max(0, min((((left >> _WIDTH * number) % (1 << _WIDTH)) - _TOP) // amount for number, amount in fields))

    def _packed_into(self, ranks: tuple[int, ...], free: int, lowest: int = 0) -> tuple[Packing, ...]:
        """Of the first profile none stands below `lowest`."""
        if not ranks:
            return ((),)
        key = (ranks, free, lowest)
        if key in self._packings:
            return self._packings[key]
        first, rest = ranks[0], ranks[1:]
        name, again = self.shapes[first].name, rest[:1] == (first,)
        found = tuple(
            ((name, start), *others)
            for start, window in self._windows[first]
            if window & free == window and start >= lowest
            for others in self._packed_into(rest, free & ~window, start + 1 if again else 0)
        )
        self._packings[key] = found
        return found


def cells(start: int, size: int) -> int:
    """The memory slices of a place, as bits."""
    return ((1 << size) - 1) << start


@lru_cache(maxsize=64)
def table_of(geometry: Geometry) -> Table:
    """The table of a geometry; a fleet has few kinds of boards."""
    return Table(geometry)


def _fit(windows: Sequence[tuple[int, int]], taken: int) -> int:
    """How many more have a place: windows of equal length, so taking the first free one each time is best."""
    count = 0
    for _, window in windows:
        if not taken & window:
            count, taken = count + 1, taken | window
    return count
