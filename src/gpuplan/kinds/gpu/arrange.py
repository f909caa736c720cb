"""Arrange: which live instance each wanted slice already is, and what has to go and to come on one GPU."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gpuplan.kinds.gpu import memory, users
from gpuplan.kinds.gpu.geometry import geometry_of
from gpuplan.kinds.gpu.placement import Layout, Live, Shortage, Wanted, solve
from gpuplan.kinds.gpu.read import Gpu, Instance, ObservedGpus
from gpuplan.kinds.gpu.spec import SliceSpec
from gpuplan.kinds.gpu.units import Unit
from gpuplan.model.address import Address
from gpuplan.model.record import Record
from gpuplan.model.snapshot import ProbeError


@dataclass(frozen=True)
class Standing:
    """A live instance with all that matters for leaving it or letting it go."""

    instance: Instance
    users: users.Users
    made: Address | None
    """The address under which this plan file made it; None for an unmanaged one."""

    def part(self, unit: Unit) -> Address:
        """How it is addressed: by its name, or by profile and place where it has none."""
        return self.made or unit.address.part(memory.describe(self.instance))

    def called(self, unit: Unit) -> str:
        """“cls-a (3g.40gb at 0)”, or “3g.40gb at 0” where it has no name."""
        if self.made is None:
            return f"{self.instance} of {unit.address.name}" if unit.prefix else str(self.instance)
        return f"{unit.called(self.made.name.rpartition('/')[2])} ({self.instance})"


@dataclass(frozen=True)
class New:
    """A slice to be created; without a start its place is solved on the node."""

    name: str
    profile: str
    start: int | None
    size: int | None

    def __str__(self) -> str:
        return self.profile if self.start is None else f"{self.profile} at {self.start}"


@dataclass(frozen=True)
class Arrangement:
    """What becomes of one GPU's slices."""

    keep: Mapping[str, Standing] = field(default_factory=dict)
    """Wanted slice → the instance that it already is."""
    going: tuple[Standing, ...] = ()
    create: tuple[New, ...] = ()
    strange: tuple[Standing, ...] = ()
    """Unmanaged instances that stay."""


def standing(unit_gpu: Gpu, observed: ObservedGpus, record: Record, plan: str) -> tuple[Standing, ...]:
    """The live instances of a GPU by ascending start; none where they could not be read."""
    if isinstance(unit_gpu.instances, ProbeError):
        return ()
    made = memory.made_on(record, unit_gpu)
    return tuple(
        Standing(each, users.of_instance(observed, unit_gpu, each, plan), made.get(each.id))
        for each in sorted(unit_gpu.instances, key=lambda one: one.start)
    )


def paired(unit: Unit, live: Sequence[Standing], named: Collection[Address]) -> dict[str, Standing]:
    """Wanted slice → the instance that it is: the one made under its name, else a free one of its profile.

    Free is what was not made under a name that the plan file still has (`named`: all wanted slices of the node). Of
    the free ones those that this plan file made go first, then the lowest start. One that a stranger uses and that we
    did not make is not free.
    """
    wanted = unit.spec.slices
    pairs: dict[str, Standing] = {}
    for each in wanted:
        own = next((one for one in live if one.made == unit.address.part(each.name)), None)
        if own is not None and own.instance.profile == each.profile:
            pairs[each.name] = own
    for each in wanted:
        free = [one for one in live if one not in pairs.values() and one.made not in named and _suits(one, each)]
        if each.name not in pairs and free:
            pairs[each.name] = min(free, key=lambda one: (one.made is None, one.instance.start))
    return pairs


def _suits(one: Standing, wanted: SliceSpec) -> bool:
    return one.instance.profile == wanted.profile and (one.made is not None or not one.users.strangers)


def arrange(
    unit: Unit, live: Sequence[Standing], pairs: Mapping[str, Standing], record: Record
) -> Arrangement | Shortage:
    """The cheapest way from what stands, some of it being wanted slices already (`pairs`), to what is wanted."""
    geometry = geometry_of(unit.gpu)
    if geometry is None or any(each.profile not in geometry.by_name for each in unit.spec.slices):
        return _without_places(unit, live, pairs)
    names = {one.instance.id: name for name, one in pairs.items()}
    instances = {_live(one, names.get(one.instance.id)): one for one in live}
    wanted = [Wanted(each.name, each.profile, _before(unit, each, record)) for each in unit.spec.slices]
    solved = solve(geometry, tuple(instances), wanted)
    if isinstance(solved, Shortage):
        return solved
    return _arranged(unit, pairs, instances, solved)


def everything_goes(live: Sequence[Standing]) -> Arrangement:
    """For MIG mode off: no slice can stay."""
    return Arrangement(going=tuple(live))


def only_ours_go(live: Sequence[Standing]) -> Arrangement:
    """For a GPU that the plan file no longer names."""
    return Arrangement(
        going=tuple(one for one in live if one.made), strange=tuple(one for one in live if one.made is None)
    )


def _live(one: Standing, name: str | None) -> Live:
    instance, made = one.instance, one.made is not None
    hold = one.users.hold(made)
    return Live(instance.profile, instance.start, instance.size, hold, name, leaves=made and name is None)


def _before(unit: Unit, wanted: SliceSpec, record: Record) -> int | None:
    part = unit.address.part(wanted.name)
    return next(
        (made.start for made in memory.made_slices(record) if (made.part, made.profile) == (part, wanted.profile)), None
    )


def _arranged(
    unit: Unit, pairs: Mapping[str, Standing], instances: Mapping[Live, Standing], solved: Layout
) -> Arrangement:
    going = tuple(instances[each] for each in solved.destroy)
    stay = [one for one in instances.values() if one not in going]
    return Arrangement(
        keep={name: one for name, one in pairs.items() if one in stay},
        going=going,
        create=tuple(
            New(each.name, each.profile, *solved.create[each.name])
            for each in unit.spec.slices
            if each.name in solved.create
        ),
        strange=tuple(one for one in stay if one not in pairs.values()),
    )


def _without_places(unit: Unit, live: Sequence[Standing], pairs: Mapping[str, Standing]) -> Arrangement:
    rest = [one for one in live if one not in pairs.values()]
    return Arrangement(
        keep=pairs,
        going=tuple(one for one in rest if one.made),
        create=tuple(New(each.name, each.profile, None, None) for each in unit.spec.slices if each.name not in pairs),
        strange=tuple(one for one in rest if one.made is None),
    )
