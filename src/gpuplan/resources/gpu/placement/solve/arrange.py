"""Arrange: which live instance each wanted slice already is, and what has to go and to come on one GPU."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gpuplan.resources.gpu import compute, memory, users
from gpuplan.resources.gpu.compute import Inside
from gpuplan.resources.gpu.desired import SliceSpec
from gpuplan.resources.gpu.observed import Compute, Gpu, Instance, ObservedGpus
from gpuplan.resources.gpu.placement.solve.geometry import Place, geometry_of
from gpuplan.resources.gpu.placement.solve.solve import Layout, Live, Shortage, Wanted, solve
from gpuplan.resources.gpu.units import Unit
from gpuplan.resources.gpu.users import Users
from gpuplan.types.address import Address
from gpuplan.types.record import Record
from gpuplan.types.snapshot import ProbeError


@dataclass(frozen=True)
class Standing:
    """A live instance with all that matters for leaving it or letting it go."""

    instance: Instance
    users: Users
    made: Address | None
    """The address under which this plan file made it; None for an unmanaged one."""
    slices: int
    """Compute slices that it has."""
    known: tuple[int, ...] | None = None
    """Ids of its compute instances by number, as they were made; None where that is not remembered."""
    computes: Mapping[int, Users] = field(default_factory=dict, hash=False)
    """Who uses each compute instance, by id."""
    certain: bool = True
    """All that may use it or have made it was read; without that, what we did not make is not taken for ours."""
    other: str = ""
    """The other plan file that made it; then it is not ours, whatever we remember."""

    def __str__(self) -> str:
        return compute.shown(self.instance, self.slices)

    def part(self, unit: Unit) -> Address:
        """How it is addressed: by its name, or by profile and place where it has none."""
        return self.made or unit.address.part(memory.describe(self.instance))

    def called(self, unit: Unit) -> str:
        """“cls-a (3g.40gb at 0)”, or “3g.40gb at 0” where it has no name."""
        if self.made is None:
            return f"{self.instance} of {unit.address.name}" if unit.prefix else str(self.instance)
        return f"{unit.called(self.made.name.rpartition('/')[2])} ({self.instance})"

    def owns(self, one: Compute) -> bool:
        """This plan file made the compute instance."""
        return self.made is not None and (self.known is None or one.id in self.known)

    def inside(self, wanted: SliceSpec) -> Inside:
        """What becomes of its compute instances where it is this wanted slice."""
        held = [id_ for id_, its in self.computes.items() if its.all]
        sizes = compute.sizes_of(wanted, self.slices)
        return compute.inside(sizes, self.instance.computes, self.known or (), held)


@dataclass(frozen=True)
class New:
    """A slice to be created; without a start its place is solved on the node."""

    name: str
    profile: str
    start: int | None
    size: int | None
    compute: tuple[int, ...] = ()

    def __str__(self) -> str:
        inside = compute.with_compute(self.compute, 0) if self.compute else ""
        return f"{self.profile}{inside}" if self.start is None else f"{self.profile} at {self.start}{inside}"


@dataclass(frozen=True)
class Arrangement:
    """What becomes of one GPU's slices."""

    keep: Mapping[str, Standing] = field(default_factory=dict)
    """Wanted slice → the instance that it already is."""
    going: tuple[Standing, ...] = ()
    create: tuple[New, ...] = ()
    strange: tuple[Standing, ...] = ()
    """Unmanaged instances that stay."""
    inside: Mapping[str, Inside] = field(default_factory=dict)
    """What becomes of the compute instances of each slice that stays and is not as it is to be."""
    short: str = ""
    """What would be short if everything stayed that is not ours to take."""


def standing(unit_gpu: Gpu, observed: ObservedGpus, record: Record, plan: str) -> tuple[Standing, ...]:
    """The live instances of a GPU by ascending start; none where they could not be read."""
    if isinstance(unit_gpu.instances, ProbeError):
        return ()
    made = memory.made_on(record, unit_gpu)
    asked = (unit_gpu.processes, observed.containers, observed.others.error)
    certain = not any(isinstance(each, ProbeError) for each in asked)
    found: list[Standing] = []
    for each in sorted(unit_gpu.instances, key=lambda one: one.start):
        other = observed.others.maker(unit_gpu.uuid, each.profile, each.start)
        ours, profile = None if other else made.get(each.id), unit_gpu.profile(each.profile)
        found.append(
            Standing(
                each,
                users.of_instance(observed, unit_gpu, each, plan),
                ours.part if ours else None,
                profile.slices if profile else 0,
                ours.computes if ours else None,
                {one.id: users.of_compute(observed, unit_gpu, each, one, plan) for one in each.computes},
                certain,
                other,
            )
        )
    return tuple(found)


def paired(unit: Unit, live: Sequence[Standing], named: Collection[Address]) -> dict[str, Standing]:
    """Wanted slice → the instance that it is as things are, whether or not it can stay.

    That is the one made under its name, else a free one of its profile: first of those that this plan file made, then
    what speaks most for being left alone, then the lowest start.
    """
    pairs = _own(unit, live)
    for each in unit.spec.slices:
        free = [one for one in live if one not in pairs.values() and _is_free(one, named)]
        free = [one for one in free if one.instance.profile == each.profile]
        if each.name not in pairs and free:
            pairs[each.name] = min(free, key=_first)
    return pairs


def _first(one: Standing) -> tuple[bool, int, int]:
    return one.made is None, -one.users.hold(one.made is not None), one.instance.start


def arrange(unit: Unit, live: Sequence[Standing], named: Collection[Address], record: Record) -> Arrangement | Shortage:
    """The cheapest way from what stands to what is wanted.

    An instance that was made under a name which the plan file still has (`named`: all wanted slices of the node) can
    become no other slice, and neither can one that a stranger uses and that we did not make. But where the plan file
    says at which place a slice begins, the instance of its profile that stands there is that slice.
    """
    geometry = geometry_of(unit.gpu)
    if geometry is None or any(each.profile not in geometry.by_name for each in unit.spec.slices):
        return _without_places(unit, live, paired(unit, live, named))
    own = {one.instance.id: name for name, one in _own(unit, live).items()}
    instances = {_live(one, own.get(one.instance.id), named): one for one in live}
    wanted = [Wanted(each.name, each.profile, _before(unit, each, record)) for each in unit.spec.slices]
    solved = solve(geometry, tuple(instances), wanted)
    if isinstance(solved, Shortage):
        return solved
    return _displaced(unit.spec.slices, solved) or _arranged(unit, instances, solved)


def _displaced(wanted: Sequence[SliceSpec], solved: Layout) -> Shortage | None:
    """Slices that cannot begin where the plan file says."""
    elsewhere = [each for each in wanted if each.name in solved.create and _elsewhere(each, solved.create[each.name])]
    if not elsewhere:
        return None
    places = ", ".join(f"no place for {each.profile} at {each.start}" for each in elsewhere)
    names = {each.name for each in elsewhere}
    fix = "Write a start that `nvidia-smi mig -lgipp` tells for the profile, or leave it out."
    return Shortage(places, tuple(each.name for each in wanted if each.name not in names), tuple(sorted(names)), fix)


def _elsewhere(wanted: SliceSpec, place: Place) -> bool:
    return wanted.start is not None and place[0] != wanted.start


def kept(unit: Unit, keep: Mapping[str, Standing]) -> Arrangement:
    """An arrangement in which only this is known: what stays, and what is to become of its compute instances."""
    inside = {each.name: keep[each.name].inside(each) for each in unit.spec.slices if each.name in keep}
    return Arrangement(keep=keep, inside={name: one for name, one in inside.items() if not one.right})


def everything_goes(live: Sequence[Standing]) -> Arrangement:
    """For MIG mode off: no slice can stay."""
    return Arrangement(going=tuple(live))


def only_ours_go(live: Sequence[Standing]) -> Arrangement:
    """For a GPU that the plan file no longer names."""
    return Arrangement(
        going=tuple(one for one in live if one.made), strange=tuple(one for one in live if one.made is None)
    )


def _own(unit: Unit, live: Sequence[Standing]) -> dict[str, Standing]:
    found = {each.name: _its_own(unit.address.part(each.name), each, live) for each in unit.spec.slices}
    return {name: one for name, one in found.items() if one is not None}


def _its_own(part: Address, wanted: SliceSpec, live: Sequence[Standing]) -> Standing | None:
    """What was made under its name, or stands where the plan file says and is nobody's."""
    fitting = [one for one in live if one.instance.profile == wanted.profile]
    if wanted.start is not None:
        fitting = [one for one in fitting if one.instance.start == wanted.start and not one.other]
    return next((one for one in fitting if one.made == part or (wanted.start is not None and one.made is None)), None)


def _is_free(one: Standing, named: Collection[Address]) -> bool:
    if one.made is not None:
        return one.made not in named
    return one.certain and not one.other and not one.users.strangers


def _live(one: Standing, name: str | None, named: Collection[Address]) -> Live:
    instance, made = one.instance, one.made is not None
    free = name is None and _is_free(one, named)
    return Live(
        instance.profile, instance.start, instance.size, one.users.hold(made), name, free, made and name is None
    )


def _before(unit: Unit, wanted: SliceSpec, record: Record) -> int | None:
    if wanted.start is not None:
        return wanted.start
    part = unit.address.part(wanted.name)
    return next(
        (made.start for made in memory.made_slices(record) if (made.part, made.profile) == (part, wanted.profile)), None
    )


def _arranged(unit: Unit, instances: Mapping[Live, Standing], solved: Layout) -> Arrangement:
    keep = {each.name: instances[solved.keep[each.name]] for each in unit.spec.slices if each.name in solved.keep}
    going = tuple(instances[each] for each in sorted(solved.destroy, key=lambda each: each.start))
    return Arrangement(
        keep=keep,
        going=going,
        create=tuple(
            New(each.name, each.profile, *solved.create[each.name], each.compute)
            for each in unit.spec.slices
            if each.name in solved.create
        ),
        strange=tuple(one for one in instances.values() if one not in going and one not in keep.values()),
        inside=kept(unit, keep).inside,
        short=solved.short,
    )


def _without_places(unit: Unit, live: Sequence[Standing], pairs: Mapping[str, Standing]) -> Arrangement:
    rest = [one for one in live if one not in pairs.values()]
    return Arrangement(
        keep=pairs,
        going=tuple(one for one in rest if one.made),
        create=tuple(
            New(each.name, each.profile, None, None, each.compute)
            for each in unit.spec.slices
            if each.name not in pairs
        ),
        strange=tuple(one for one in rest if one.made is None),
        inside=kept(unit, pairs).inside,
    )
