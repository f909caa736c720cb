"""What a GPU offers, as the node reports it or, while MIG is off, the catalog; and a fast search for placements.

A `PlacementTable` searches in machine words, so that every board is solved at once. Memory slices are the bits of one
number. Everything that is counted (instances of each profile, compute slices, media engines) is a field of another:
fields are added together, and a borrow from a field's highest bit shows that it ran out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

from gpuplan.nvidia.boards import Board, find_board
from gpuplan.resources.gpu.observed import MigProfile, ObservedGpu, Placement

Packing: TypeAlias = tuple[tuple[str, int], ...]
"""(profile, start) of instances that fit side by side."""

_WIDTH = 16
_TOP = 1 << (_WIDTH - 1)

RESOURCES = ("compute slices", "video decoders", "video encoders", "JPEG engines", "optical flow engines")
"""What instances share apart from memory slices, in the order of `ProfileShape.demands`."""


@dataclass(frozen=True)
class ProfileShape:
    """What placement needs to know of one profile."""

    name: str
    slices: int
    """Compute slices."""
    instances: int
    """The most that the GPU holds."""
    placements: tuple[Placement, ...]
    engines: tuple[int, ...] = (0, 0, 0, 0)
    """Media engines of one instance: decoders, encoders, JPEG, optical flow."""

    @cached_property
    def size(self) -> int:
        """Memory slices that one instance takes."""
        return max(size for _, size in self.placements)

    @cached_property
    def demands(self) -> tuple[int, ...]:
        """How much of each of `RESOURCES` one instance takes."""
        return (self.slices, *self.engines)


@dataclass(frozen=True)
class GpuGeometry:
    """What a GPU offers."""

    shapes: tuple[ProfileShape, ...]

    @cached_property
    def by_name(self) -> Mapping[str, ProfileShape]:
        """Profile name → shape."""
        return {shape.name: shape for shape in self.shapes}

    @cached_property
    def capacity(self) -> tuple[int, ...]:
        """How much of each of `RESOURCES` the GPU has.

        NVML does not report the totals; but an empty GPU holds as many instances of each profile as the profile
        states, so it has at least that much, and the profile of the whole GPU has all of it.
        """
        return tuple(
            max(shape.demands[number] * shape.instances for shape in self.shapes) for number in range(len(RESOURCES))
        )

    @cached_property
    def memory(self) -> int:
        """Memory slices of the whole GPU."""
        return max(start + size for shape in self.shapes for start, size in shape.placements)


def geometry_of(gpu: ObservedGpu) -> GpuGeometry | None:
    """The geometry of one GPU; None if neither the node nor the catalog has the placements of every profile."""
    board = find_board(gpu.name)
    shapes: list[ProfileShape] = []
    for profile in gpu.profiles:
        placements = profile.placements or _catalog_placements(board, profile)
        if not placements:
            return None
        shapes.append(ProfileShape(profile.name, profile.slices, profile.instances, placements, profile.engines))
    return GpuGeometry(tuple(shapes)) if shapes else None


def _catalog_placements(board: Board | None, profile: MigProfile) -> tuple[Placement, ...]:
    known = board.profile(profile.name) if board is not None else None
    same = known is not None and (known.id, known.slices) == (profile.id, profile.slices)
    return known.placements if known is not None and same else ()


class PlacementTable:
    """One geometry, prepared for search; results are cached."""

    def __init__(self, geometry: GpuGeometry) -> None:
        self.shapes = sorted(geometry.shapes, key=lambda shape: (-shape.size, -shape.slices, shape.name))
        """The largest first."""
        self._rank = {shape.name: number for number, shape in enumerate(self.shapes)}
        self._windows = [
            [(start, cells(start, size)) for start, size in sorted(shape.placements)] for shape in self.shapes
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
        """True if a budget of which `used` is drawn has everything that instances of `profiles` draw."""
        guards = 0
        for profile in profiles:
            guards |= self._guards[profile]
        return (self._limit - used) & guards == guards

    def packings(self, profiles: Iterable[str], free: int) -> tuple[Packing, ...]:
        """Every way to place instances of the profiles on free memory slices, the largest first, by ascending start.

        Instances of one profile are by ascending start, since swapping two of them gives the same packing.
        """
        return self._packed_into(tuple(sorted(self._rank[profile] for profile in profiles)), free)

    def room(self, taken: int, used: int) -> tuple[int, ...]:
        """For each profile, the largest first, how many more the GPU would hold."""
        if taken not in self._windows_left:
            self._windows_left[taken] = tuple(_fit(windows, taken) for windows in self._windows)
        if used not in self._budget_left:
            self._budget_left[used] = tuple(self._budget(fields, used) for fields in self._fields)
        return tuple(map(min, self._windows_left[taken], self._budget_left[used]))

    def _fields_of(self, shape: ProfileShape) -> list[tuple[int, int]]:
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
        """No instance of the first profile begins below `lowest`."""
        if not ranks:
            return ((),)
        key = (ranks, free, lowest)
        if key in self._packings:
            return self._packings[key]
        first, rest = ranks[0], ranks[1:]
        name, repeated = self.shapes[first].name, rest[:1] == (first,)
        packings = tuple(
            ((name, start), *others)
            for start, window in self._windows[first]
            if window & free == window and start >= lowest
            for others in self._packed_into(rest, free & ~window, start + 1 if repeated else 0)
        )
        self._packings[key] = packings
        return packings


def cells(start: int, size: int) -> int:
    """The memory slices of a placement, as bits."""
    return ((1 << size) - 1) << start


@lru_cache(maxsize=64)
def table_of(geometry: GpuGeometry) -> PlacementTable:
    """The table of a geometry; a fleet has few kinds of boards."""
    return PlacementTable(geometry)


def _fit(windows: Sequence[tuple[int, int]], taken: int) -> int:
    """How many more fit: windows have equal length, so taking the first free one each time is optimal."""
    count = 0
    for _, window in windows:
        if not taken & window:
            count, taken = count + 1, taken | window
    return count
