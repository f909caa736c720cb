"""Where slices go: which live instances stay, which must go, and at which places the missing ones are created."""

from __future__ import annotations

import enum
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuplan.resources.gpu.placement.solve.geometry import Geometry, Place
from gpuplan.resources.gpu.placement.solve.search import Packing, Table, cells, table_of
from gpuplan.resources.gpu.placement.solve.shortage import shortages


class Hold(enum.IntEnum):
    """What speaks for leaving a live instance alone; one of a higher rank outweighs any number of a lower one.

    An unmanaged one outweighs one that serves our own containers: those follow, while it is not ours to take.
    """

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
    free: bool = False
    """It may become any wanted slice of its profile."""
    leaves: bool = False
    """Ours, and goes unless it becomes a wanted slice."""


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

    keep: Mapping[str, Live]
    """Wanted slice → the live instance that it is."""
    destroy: tuple[Live, ...]
    create: Mapping[str, Place]
    """Wanted slice → where it is created."""
    short: str = field(default="", compare=False)
    """Where an instance that is not ours to take must go: what would be short if all of those stayed."""


@dataclass(frozen=True)
class Shortage:
    """Why the wanted slices do not fit together on this GPU, whatever else goes."""

    resource: str
    """“memory slices 11/8”."""
    fitting: tuple[str, ...]
    """Those that do fit, taken in the order written."""
    surplus: tuple[str, ...]
    """The others."""
    fix: str = ""
    """What to do; empty = take the surplus away, or write smaller ones."""


def solve(geometry: Geometry, live: Sequence[Live], wanted: Sequence[Wanted]) -> Layout | Shortage:
    """The layout with all wanted slices that costs least.

    First: no busy instance goes if any layout spares it, then no unmanaged one, then none that serves, then the fewest.
    Then: slices come back to where they were; then the largest profiles stay placeable; then the lowest starts.
    """
    short = shortages(geometry, [each.profile for each in wanted])
    return _lacking(geometry, wanted, short) if short else _Solver(geometry, live, wanted).solve()


def place(geometry: Geometry, live: Sequence[Live], wanted: Sequence[Wanted]) -> Mapping[str, Place] | None:
    """Places for the wanted slices beside all live instances, none of which goes; None where there are none."""
    fixed = [Live(each.profile, each.start, each.size, Hold.BUSY) for each in live]
    if shortages(geometry, [each.profile for each in wanted]):
        return None
    found = _Solver(geometry, fixed, wanted).solve()
    return found.create if isinstance(found, Layout) and not found.destroy else None


@dataclass(frozen=True)
class _Option:
    """One set of instances that stays, with what it leaves to be made."""

    going: tuple[Live, ...]
    taken: int
    used: int
    adopted: tuple[Live, ...]
    missing: tuple[str, ...]
    """Profiles."""
    names: tuple[Wanted, ...]
    """The wanted slices that are none of those that stay under their name."""


class _Solver:
    def __init__(self, geometry: Geometry, live: Sequence[Live], wanted: Sequence[Wanted]) -> None:
        self._geometry = geometry
        self._table: Table = table_of(geometry)
        self._wanted = wanted
        self._forced = tuple(each for each in live if each.leaves and not each.free and each.name is None)
        # Under their own name, then ours, then what speaks most for being left alone: who comes first is adopted first.
        self._live = sorted(
            (each for each in live if each not in self._forced),
            key=lambda each: (each.name is None, not each.leaves, -each.hold, each.start),
        )

    def solve(self) -> Layout | Shortage:
        for subsets in self._by_cost():
            options = [option for subset in subsets if (option := self._option(subset))]
            if (layout := self._best(options)) is not None:
                return layout
        return _lacking(self._geometry, self._wanted, "no arrangement of their placements")

    def _by_cost(self) -> Iterator[list[int]]:
        """Every set of instances that could go, as bits, the cheapest first, those of equal cost together."""
        costs = [0]
        for each in self._live:  # at most sixteen of each hold, so that holds are the digits of a number
            costs += [cost + (1 << 4 * each.hold) for cost in costs]
        for _, group in itertools.groupby(sorted(range(len(costs)), key=costs.__getitem__), key=costs.__getitem__):
            yield list(group)

    def _option(self, subset: int) -> _Option | None:
        """What is left where these go; None where what stays cannot, or what is missing does not fit by its numbers."""
        going = [each for number, each in enumerate(self._live) if subset >> number & 1]
        stay = [each for number, each in enumerate(self._live) if not subset >> number & 1]
        named = {each.name for each in stay}
        names = tuple(each for each in self._wanted if each.name not in named)
        open_ = Counter(each.profile for each in names)
        adopted: list[Live] = []
        taken = used = 0
        for each in stay:
            taken |= cells(each.start, each.size)
            used += self._table.draws.get(each.profile, 0)
            if each.free and open_[each.profile]:
                open_[each.profile] -= 1
                adopted.append(each)
            elif each.leaves and each.name is None:
                return None
        missing = tuple(open_.elements())
        used += sum(self._table.draws[profile] for profile in missing)
        if not self._table.affords(used, missing):
            return None
        return _Option((*self._forced, *going), taken, used, tuple(adopted), missing, names)

    def _best(self, options: Iterable[_Option]) -> Layout | None:
        best: tuple[tuple[int, tuple[int, ...]], _Option, Packing] | None = None
        for option in options:
            moves = _Moves(option)
            for packing in self._table.packings(option.missing, self._table.whole & ~option.taken):
                taken = option.taken
                for profile, start in packing:
                    taken |= cells(start, self._geometry.by_name[profile].size)
                merit = moves.after(packing), tuple(-more for more in self._table.room(taken, option.used))
                if best is None or merit < best[0]:
                    best = merit, option, packing
        return None if best is None else self._layout(best[1], best[2])

    def _layout(self, option: _Option, packing: Packing) -> Layout:
        own = {each.name: each for each in self._live if each.name is not None and each not in option.going}
        keep, create = _assigned(option, packing)
        places = {
            name: (start, dict(self._geometry.by_name[profile].placements)[start])
            for name, (profile, start) in create.items()
        }
        strange = any(each.hold >= Hold.UNMANAGED and not each.leaves for each in option.going)
        return Layout({**own, **keep}, option.going, places, self._short() if strange else "")

    def _short(self) -> str:
        """What is short where only those go that are ours to take."""
        subset = sum(1 << number for number, each in enumerate(self._live) if each.hold < Hold.UNMANAGED or each.leaves)
        stay = [each for number, each in enumerate(self._live) if not subset >> number & 1]
        names = Counter(each.profile for each in self._wanted if each.name not in {one.name for one in stay})
        names -= Counter(each.profile for each in stay if each.free)
        known = [each for each in stay if each.profile in self._geometry.by_name]
        other = sum(each.size for each in stay if each.profile not in self._geometry.by_name)
        short = shortages(self._geometry, [*(each.profile for each in known), *names.elements()], other)
        return short or f"a place for {' and '.join(sorted(names))}"


class _Moves:
    """Counts slices that do not come back to where they were."""

    def __init__(self, option: _Option) -> None:
        wishes = [(each.profile, each.preferred) for each in option.names if each.preferred is not None]
        self._total, self._wishes = len(wishes), set(wishes)
        self._kept = {(each.profile, each.start) for each in option.adopted}

    def after(self, packing: Packing) -> int:
        """How many, where the missing ones are made so; a place is given to one slice only."""
        return self._total - len(self._wishes & (self._kept | set(packing))) if self._total else 0


def _assigned(option: _Option, packing: Packing) -> tuple[dict[str, Live], dict[str, tuple[str, int]]]:
    """Who is what: at its old place whoever can; then those that stand go first, in the order written."""
    adopted = {(each.profile, each.start): each for each in option.adopted}
    pool = [*adopted, *packing]
    given: dict[str, tuple[str, int]] = {}
    for each in option.names:
        if (old := (each.profile, each.preferred)) in pool:
            given[each.name] = next(one for one in pool if one == old)
            pool.remove(given[each.name])
    for each in option.names:
        if each.name not in given:
            given[each.name] = next(one for one in pool if one[0] == each.profile)
            pool.remove(given[each.name])
    keep = {name: adopted[one] for name, one in given.items() if one in adopted}
    return keep, {name: one for name, one in given.items() if name not in keep}


def _lacking(geometry: Geometry, wanted: Sequence[Wanted], short: str) -> Shortage:
    kept: list[Wanted] = []
    for each in wanted:
        trial = [one.profile for one in (*kept, each)]
        table = table_of(geometry)
        if not shortages(geometry, trial) and table.packings(trial, table.whole):
            kept.append(each)
    fitting = tuple(each.name for each in kept)
    return Shortage(short, fitting, tuple(each.name for each in wanted if each.name not in fitting))
