"""Solve placement: which instances stay, which are destroyed, and where the missing slices are created."""

from __future__ import annotations

import enum
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuplan.resources.gpu.desired import SliceSpec
from gpuplan.resources.gpu.observed import GpuInstance, Placement
from gpuplan.resources.gpu.placement.geometry import (
    RESOURCES,
    GpuGeometry,
    Packing,
    PlacementTable,
    ProfileShape,
    cells,
    table_of,
)


class Protection(enum.IntEnum):
    """Why to leave an instance alone; one of a higher rank outweighs any number of a lower one.

    An unmanaged one outweighs one that serves managed containers: those follow a change, while it is not ours to take.
    """

    IDLE = 0
    SERVING = 1
    """Containers of this plan file run on it."""
    UNMANAGED = 2
    """Not made by this plan file."""
    BUSY = 3
    """Another user's process or container runs on it."""


@dataclass(frozen=True)
class PlacedInstance:
    """One existing instance, as the solver sees it."""

    profile: str
    start: int
    size: int
    protection: Protection = Protection.IDLE
    name: str | None = None
    """The desired slice that it already is."""
    free: bool = False
    """It may become any desired slice of its profile."""
    obsolete: bool = False
    """Made by this plan file, and destroyed unless it becomes a desired slice."""


@dataclass(frozen=True)
class Layout:
    """The answer: every instance that is not named stays where it is."""

    keep: Mapping[str, PlacedInstance]
    """Desired slice → the instance that it is."""
    destroy: tuple[PlacedInstance, ...]
    create: Mapping[str, Placement]
    """Desired slice → where it is created."""
    short: str = field(default="", compare=False)
    """If an instance that is not ours must go: which resource would be short if all of those stayed."""


@dataclass(frozen=True)
class Shortage:
    """Why the desired slices do not fit on this GPU, whatever is destroyed."""

    resource: str
    """“memory slices 11/8”."""
    fitting: tuple[str, ...]
    """Slices that do fit, taken in the order written."""
    surplus: tuple[str, ...]
    """The others."""
    fix: str = ""
    """Empty: remove the surplus or write smaller slices."""


def solve(
    geometry: GpuGeometry, instances: Sequence[PlacedInstance], desired: Sequence[SliceSpec]
) -> Layout | Shortage:
    """The layout with all desired slices that costs least; `start` of a slice is where it is placed by preference.

    First: no busy instance goes if any layout spares it, then no unmanaged one, then none that serves, then the fewest.
    Then: slices get their preferred start; then the largest profiles stay placeable; then the lowest starts.
    """
    short = shortages(geometry, [slice_.profile for slice_ in desired])
    return _shortage(geometry, desired, short) if short else _Solver(geometry, instances, desired).solve()


def place_beside(
    geometry: GpuGeometry, instances: Iterable[GpuInstance | PlacedInstance], desired: Sequence[SliceSpec]
) -> Mapping[str, Placement] | None:
    """Placements for the desired slices next to all instances, none of which is destroyed; None if there are none."""
    fixed = [PlacedInstance(found.profile, found.start, found.size, Protection.BUSY) for found in instances]
    if shortages(geometry, [slice_.profile for slice_ in desired]):
        return None
    layout = _Solver(geometry, fixed, desired).solve()
    return layout.create if isinstance(layout, Layout) and not layout.destroy else None


@dataclass(frozen=True)
class _Option:
    """One set of instances that stays, with what it leaves to be created."""

    destroy: tuple[PlacedInstance, ...]
    taken: int
    used: int
    adopted: tuple[PlacedInstance, ...]
    missing: tuple[str, ...]
    """Profiles."""
    unmatched: tuple[SliceSpec, ...]
    """The desired slices that no instance is by its name."""


class _Solver:
    def __init__(
        self, geometry: GpuGeometry, instances: Sequence[PlacedInstance], desired: Sequence[SliceSpec]
    ) -> None:
        self._geometry = geometry
        self._table: PlacementTable = table_of(geometry)
        self._desired = desired
        self._forced = tuple(
            instance for instance in instances if instance.obsolete and not instance.free and instance.name is None
        )
        # By name, then ours, then by protection: the first of these are adopted first.
        self._instances = sorted(
            (instance for instance in instances if instance not in self._forced),
            key=lambda instance: (
                instance.name is None, not instance.obsolete, -instance.protection, instance.start
            ),
        )  # fmt: skip

    def solve(self) -> Layout | Shortage:
        for subsets in self._by_cost():
            options = [option for subset in subsets if (option := self._option(subset))]
            if (layout := self._best(options)) is not None:
                return layout
        return _shortage(self._geometry, self._desired, "no arrangement of their placements")

    def _by_cost(self) -> Iterator[list[int]]:
        """Every set of instances that could be destroyed, as bits, the cheapest first, those of equal cost together."""
        costs = [0]
        # At most sixteen instances of each protection, so that protections are the digits of a number.
        for instance in self._instances:
            costs += [cost + (1 << 4 * instance.protection) for cost in costs]
        for _, group in itertools.groupby(sorted(range(len(costs)), key=costs.__getitem__), key=costs.__getitem__):
            yield list(group)

    def _split(self, subset: int) -> tuple[list[PlacedInstance], list[PlacedInstance]]:
        """(destroyed, kept) of a set given as bits."""
        destroyed = [instance for number, instance in enumerate(self._instances) if subset >> number & 1]
        return destroyed, [instance for number, instance in enumerate(self._instances) if not subset >> number & 1]

    def _option(self, subset: int) -> _Option | None:
        """What is left if these are destroyed; None if the rest cannot stay, or what is missing exceeds a resource."""
        destroyed, kept = self._split(subset)
        names = {instance.name for instance in kept}
        unmatched = tuple(slice_ for slice_ in self._desired if slice_.name not in names)
        missing = Counter(slice_.profile for slice_ in unmatched)
        adopted: list[PlacedInstance] = []
        taken = used = 0
        for instance in kept:
            taken |= cells(instance.start, instance.size)
            used += self._table.draws.get(instance.profile, 0)
            if instance.free and missing[instance.profile]:
                missing[instance.profile] -= 1
                adopted.append(instance)
            elif instance.obsolete and instance.name is None:
                return None
        profiles = tuple(missing.elements())
        used += sum(self._table.draws[profile] for profile in profiles)
        if not self._table.affords(used, profiles):
            return None
        return _Option((*self._forced, *destroyed), taken, used, tuple(adopted), profiles, unmatched)

    def _best(self, options: Iterable[_Option]) -> Layout | None:
        best: tuple[tuple[int, tuple[int, ...]], _Option, Packing] | None = None
        for option in options:
            moves = _Moves(option)
            for packing in self._table.packings(option.missing, self._table.whole & ~option.taken):
                taken = option.taken
                for profile, start in packing:
                    taken |= cells(start, self._geometry.by_name[profile].size)
                merit = moves.count(packing), tuple(-more for more in self._table.room(taken, option.used))
                if best is None or merit < best[0]:
                    best = merit, option, packing
        return None if best is None else self._layout(best[1], best[2])

    def _layout(self, option: _Option, packing: Packing) -> Layout:
        kept = [instance for instance in self._instances if instance not in option.destroy]
        by_name = {instance.name: instance for instance in kept if instance.name is not None}
        keep, create = _assign(option, packing)
        placements = {
            name: (start, dict(self._geometry.by_name[profile].placements)[start])
            for name, (profile, start) in create.items()
        }
        takes_others = any(one.protection >= Protection.UNMANAGED and not one.obsolete for one in option.destroy)
        return Layout({**by_name, **keep}, option.destroy, placements, self._short() if takes_others else "")

    def _short(self) -> str:
        """What is short if only instances of this plan file are destroyed."""
        ours = [one.protection < Protection.UNMANAGED or one.obsolete for one in self._instances]
        _, kept = self._split(sum(1 << number for number, is_ours in enumerate(ours) if is_ours))
        names = {instance.name for instance in kept}
        missing = Counter(slice_.profile for slice_ in self._desired if slice_.name not in names)
        missing -= Counter(instance.profile for instance in kept if instance.free)
        known = [instance.profile for instance in kept if instance.profile in self._geometry.by_name]
        unknown_size = sum(instance.size for instance in kept if instance.profile not in self._geometry.by_name)
        short = shortages(self._geometry, [*known, *missing.elements()], unknown_size)
        return short or f"a placement for {' and '.join(sorted(missing))}"


class _Moves:
    """Counts slices that do not get their preferred start."""

    def __init__(self, option: _Option) -> None:
        preferred = [(slice_.profile, slice_.start) for slice_ in option.unmatched if slice_.start is not None]
        self._total, self._preferred = len(preferred), set(preferred)
        self._kept = {(instance.profile, instance.start) for instance in option.adopted}

    def count(self, packing: Packing) -> int:
        """How many, if the missing ones are created so; a placement is given to one slice only."""
        return self._total - len(self._preferred & (self._kept | set(packing))) if self._total else 0


def _assign(option: _Option, packing: Packing) -> tuple[dict[str, PlacedInstance], dict[str, tuple[str, int]]]:
    """Which slice is which instance: its preferred start if it can; then existing instances first, as written."""
    adopted = {(instance.profile, instance.start): instance for instance in option.adopted}
    pool: list[tuple[str, int]] = [*adopted, *packing]
    assigned: dict[str, tuple[str, int]] = {}
    for slice_ in option.unmatched:
        if slice_.start is not None and (preferred := (slice_.profile, slice_.start)) in pool:
            assigned[slice_.name] = preferred
            pool.remove(preferred)
    for slice_ in option.unmatched:
        if slice_.name not in assigned:
            assigned[slice_.name] = next(place for place in pool if place[0] == slice_.profile)
            pool.remove(assigned[slice_.name])
    keep = {name: adopted[place] for name, place in assigned.items() if place in adopted}
    return keep, {name: place for name, place in assigned.items() if name not in keep}


def _shortage(geometry: GpuGeometry, desired: Sequence[SliceSpec], short: str) -> Shortage:
    fitting: list[SliceSpec] = []
    table = table_of(geometry)
    for slice_ in desired:
        profiles = [other.profile for other in (*fitting, slice_)]
        if not shortages(geometry, profiles) and table.packings(profiles, table.whole):
            fitting.append(slice_)
    names = tuple(slice_.name for slice_ in fitting)
    return Shortage(short, names, tuple(slice_.name for slice_ in desired if slice_.name not in names))


def shortages(geometry: GpuGeometry, profiles: Sequence[str], more_memory: int = 0) -> str:
    """What instances of all these profiles exceed: “memory slices 11/8 and compute slices 8/7”.

    `more_memory` is what instances of other profiles take. Media engines are named only if nothing else is short: they
    come with the slices. Empty if no resource is short; the placements may still not fit together.
    """
    shapes = [geometry.by_name[profile] for profile in profiles]
    compute = _resource_shortages(geometry, shapes, RESOURCES[:1])
    found = [*_count_shortages(shapes), *_memory_shortage(geometry, shapes, more_memory), *compute]
    return " and ".join(found or _resource_shortages(geometry, shapes, RESOURCES))


def _count_shortages(shapes: Sequence[ProfileShape]) -> Iterator[str]:
    for shape, count in Counter(shapes).items():
        if count > shape.instances:
            yield f"instances of {shape.name} {count}/{shape.instances}"


def _memory_shortage(geometry: GpuGeometry, shapes: Sequence[ProfileShape], more: int) -> Iterator[str]:
    needed = more + sum(shape.size for shape in shapes)
    if needed > geometry.memory:
        yield f"memory slices {needed}/{geometry.memory}"


def _resource_shortages(
    geometry: GpuGeometry, shapes: Sequence[ProfileShape], resources: Sequence[str]
) -> Iterator[str]:
    for number, resource in enumerate(resources):
        needed = sum(shape.demands[number] for shape in shapes)
        if needed > geometry.capacity[number]:
            yield f"{resource} {needed}/{geometry.capacity[number]}"
