"""Where slices go: which live instances stay, which must go, and at which places the missing ones are created."""

from __future__ import annotations

import enum
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

Place: TypeAlias = tuple[int, int]
"""(start, size) in memory slices."""


@dataclass(frozen=True)
class Shape:
    """What placement needs to know of one profile."""

    name: str
    slices: int
    """Compute slices."""
    instances: int
    """How many the GPU holds at most."""
    placements: tuple[Place, ...]

    @property
    def size(self) -> int:
        """Memory slices that one instance takes."""
        return max(size for _, size in self.placements)


@dataclass(frozen=True)
class Geometry:
    """What a GPU offers."""

    shapes: tuple[Shape, ...]

    @cached_property
    def by_name(self) -> Mapping[str, Shape]:
        """Profile name → shape."""
        return {shape.name: shape for shape in self.shapes}

    @cached_property
    def compute(self) -> int:
        """Compute slices of the whole GPU."""
        return max(shape.slices for shape in self.shapes)

    @cached_property
    def memory(self) -> int:
        """Memory slices of the whole GPU."""
        return max(start + size for shape in self.shapes for start, size in shape.placements)


class Hold(enum.IntEnum):
    """What speaks for leaving a live instance alone; one of a higher rank outweighs any number of a lower one."""

    IDLE = 0
    SERVING = 1
    """Our own containers run on it."""
    UNMANAGED = 2
    """Not made by this plan file."""
    BUSY = 3
    """Somebody else's process or container runs on it."""


@dataclass(frozen=True)
class Live:
    """One live instance."""

    profile: str
    start: int
    size: int
    hold: Hold = Hold.IDLE
    name: str | None = None
    """The wanted slice that it already is."""
    leaves: bool = False
    """Ours and no longer wanted: it goes in any case."""


@dataclass(frozen=True)
class Wanted:
    """One wanted slice."""

    name: str
    profile: str
    preferred: int | None = None
    """Where it was before."""


@dataclass(frozen=True)
class Layout:
    """The answer: everything that is not named stays where it is."""

    destroy: tuple[Live, ...]
    create: Mapping[str, Place]
    """Wanted slice → where it is created."""


@dataclass(frozen=True)
class Shortage:
    """Why the wanted slices do not fit together on this GPU, whatever else goes."""

    resource: str
    """“memory slices 11/8”."""
    fitting: tuple[str, ...]
    """Those that do fit, taken in the order written."""


def solve(geometry: Geometry, live: Sequence[Live], wanted: Sequence[Wanted]) -> Layout | Shortage:
    """The layout with all wanted slices that costs least.

    First: no busy instance goes if any layout spares it, then no unmanaged one, then none that serves, then the fewest.
    Then: slices come back to where they were; then the largest profiles stay placeable; then the lowest starts.
    """
    if short := _short_of(geometry, wanted):
        return Shortage(short, _fitting(geometry, wanted))
    leaving = tuple(each for each in live if each.leaves)
    staying = [each for each in live if not each.leaves]
    for going_sets in _by_cost(staying):
        found = [
            (_merit(geometry, stay, placed, wanted), Layout(leaving + going, placed))
            for going in going_sets
            for stay in (tuple(each for each in staying if each not in going),)
            for placed in _placed(geometry, stay, wanted)
        ]
        if found:
            return min(found, key=lambda pair: pair[0])[1]
    return Shortage("no arrangement of their placements", _fitting(geometry, wanted))


def place(geometry: Geometry, live: Sequence[Live], wanted: Sequence[Wanted]) -> Mapping[str, Place] | None:
    """Places for the wanted slices beside all live instances, none of which goes; None where there are none."""
    found = [(_merit(geometry, live, placed, wanted), placed) for placed in _placed(geometry, live, wanted)]
    return min(found, key=lambda pair: pair[0])[1] if found else None


def _short_of(geometry: Geometry, wanted: Sequence[Wanted]) -> str:
    shapes = [geometry.by_name[each.profile] for each in wanted]
    for shape, count in Counter(shapes).items():
        if count > shape.instances:
            return f"instances of {shape.name} {count}/{shape.instances}"
    compute, memory = sum(shape.slices for shape in shapes), sum(shape.size for shape in shapes)
    if memory > geometry.memory:
        return f"memory slices {memory}/{geometry.memory}"
    if compute > geometry.compute:
        return f"compute slices {compute}/{geometry.compute}"
    return ""


def _fitting(geometry: Geometry, wanted: Sequence[Wanted]) -> tuple[str, ...]:
    kept: list[Wanted] = []
    for each in wanted:
        trial = [*kept, each]
        if not _short_of(geometry, trial) and next(_placed(geometry, (), trial), None) is not None:
            kept = trial
    return tuple(each.name for each in kept)


def _by_cost(staying: Sequence[Live]) -> Iterator[list[tuple[Live, ...]]]:
    """Every set of instances that could go, the cheapest first, those of equal cost together."""
    subsets = [chosen for count in range(len(staying) + 1) for chosen in itertools.combinations(staying, count)]
    subsets.sort(key=_cost)
    for _, group in itertools.groupby(subsets, key=_cost):
        yield list(group)


def _cost(going: Sequence[Live]) -> tuple[int, ...]:
    holds = Counter(each.hold for each in going)
    return tuple(holds[hold] for hold in sorted(Hold, reverse=True))


def _placed(geometry: Geometry, stay: Sequence[Live], wanted: Sequence[Wanted]) -> Iterator[dict[str, Place]]:
    """Every way to place what is missing beside what stays; of ways that differ only in who stands where, the best."""
    names = {each.name for each in stay}
    missing = [each for each in wanted if each.name not in names]
    if _too_many(geometry, stay, missing):
        return
    counts = Counter(each.profile for each in missing)
    shapes = sorted((geometry.by_name[name] for name in counts), key=lambda shape: (-shape.size, shape.name))
    one_each = [shape for shape in shapes for _ in range(counts[shape.name])]
    for places in _search(one_each, _taken(stay), None):
        yield _named(missing, places)


def _too_many(geometry: Geometry, stay: Sequence[Live], missing: Sequence[Wanted]) -> bool:
    counts = Counter(each.profile for each in stay) + Counter(each.profile for each in missing)
    known = {name: geometry.by_name[name] for name in counts if name in geometry.by_name}
    too_many = any(counts[each.profile] > geometry.by_name[each.profile].instances for each in missing)
    return too_many or sum(shape.slices * counts[name] for name, shape in known.items()) > geometry.compute


def _search(
    shapes: Sequence[Shape], taken: frozenset[int], before: tuple[Shape, int] | None
) -> Iterator[tuple[tuple[str, Place], ...]]:
    """(profile, place) for each shape; those of one profile by ascending start, since swaps are no other answer."""
    if not shapes:
        yield ()
        return
    first, *rest = shapes
    lowest = before[1] if before is not None and before[0] == first else 0
    for start, size in sorted(first.placements):
        cells = frozenset(range(start, start + size))
        if start >= lowest and not cells & taken:
            for others in _search(rest, taken | cells, (first, start)):
                yield ((first.name, (start, size)), *others)


def _named(missing: Sequence[Wanted], places: Sequence[tuple[str, Place]]) -> dict[str, Place]:
    """Who stands where: at its old place whoever can, the others by ascending start in the order written."""
    free = {profile: sorted(place for name, place in places if name == profile) for profile, _ in places}
    named: dict[str, Place] = {}
    for each in missing:
        old = next((place for place in free[each.profile] if place[0] == each.preferred), None)
        if old is not None:
            free[each.profile].remove(old)
            named[each.name] = old
    for each in missing:
        if each.name not in named:
            named[each.name] = free[each.profile].pop(0)
    return named


def _merit(
    geometry: Geometry, stay: Sequence[Live], placed: Mapping[str, Place], wanted: Sequence[Wanted]
) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Less is better: slices that are not where they were, room for more of each profile, starts."""
    new = [each for each in wanted if each.name in placed]
    moved = sum(each.preferred not in (None, placed[each.name][0]) for each in new)
    profiles = Counter(each.profile for each in stay) + Counter(each.profile for each in new)
    taken = _taken(stay) | frozenset(cell for start, size in placed.values() for cell in range(start, start + size))
    largest_first = sorted(geometry.shapes, key=lambda shape: (-shape.size, -shape.slices, shape.name))
    room = tuple(-_room(geometry, shape, profiles, taken) for shape in largest_first)
    return moved, room, tuple(placed[each.name][0] for each in new)


def _room(geometry: Geometry, shape: Shape, profiles: Counter[str], taken: frozenset[int]) -> int:
    """How many more of one profile the GPU would hold."""
    used = sum(geometry.by_name[name].slices * count for name, count in profiles.items() if name in geometry.by_name)
    return min(_fit(shape, taken), (geometry.compute - used) // shape.slices, shape.instances - profiles[shape.name])


def _fit(shape: Shape, taken: frozenset[int]) -> int:
    """How many more have a place: windows of equal length, so taking the first free one each time is best."""
    count, free_from = 0, 0
    for start, size in sorted(shape.placements):
        if start >= free_from and not taken & frozenset(range(start, start + size)):
            count, free_from = count + 1, start + size
    return count


def _taken(live: Iterable[Live]) -> frozenset[int]:
    return frozenset(cell for each in live for cell in range(each.start, each.start + each.size))
