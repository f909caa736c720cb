"""What a change of the compute instances inside slices that stay means to people, and its steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpuplan.resources.gpu import compute
from gpuplan.resources.gpu.compute import Inside
from gpuplan.resources.gpu.observed import Compute
from gpuplan.resources.gpu.placement.solve.arrange import Arrangement, Standing
from gpuplan.resources.gpu.units import Unit
from gpuplan.resources.gpu.words import listed
from gpuplan.types.address import Address
from gpuplan.types.change import FieldChange, Unmanaged, Verb
from gpuplan.types.value import Json


@dataclass(frozen=True)
class Act:
    """One step on compute instances."""

    name: str
    verb: Verb
    title: str
    payload: Mapping[str, Json]
    makes: tuple[Address, ...] = ()
    frees: tuple[Address, ...] = field(default=())


def acts(unit: Unit, plan: Arrangement) -> Iterator[Act]:
    """One for each compute instance that goes, and one for all that a slice lacks."""
    for name, inside in plan.inside.items():
        one, makes = plan.keep[name], _missing(unit, name, inside)
        common: dict[str, Json] = {
            "slice": str(unit.address.part(name)),
            "profile": one.instance.profile,
            "start": one.instance.start,
            "sizes": list(inside.sizes),
            "known": list(one.known or ()),
            "adopted": one.made is None,
        }
        called = f"slice {unit.called(name)} ({one.instance})"
        for gone in inside.going:
            title = f"destroy compute instance {gone.slices}c of {called}"
            act: dict[str, Json] = {"act": "destroy_compute", **common, "compute": gone.id}
            act["seen"] = list(one.computes[gone.id].strangers)
            frees = tuple(dict.fromkeys((_part(unit, name, one, gone), *makes)))
            yield Act(f"destroy-{name}-{gone.id}", Verb.DELETE, title, act, frees=frees)
        if makes:
            whole = len(inside.sizes) == 1 and inside.sizes[0] == one.slices
            plural = "compute instances" if len(makes) > 1 else "compute instance"
            what = "its compute instance" if whole else f"{plural} {_sizes(inside)}"
            title = f"give {called} {what}"
            yield Act(f"create-{name}", Verb.CREATE, title, {"act": "compute", **common}, makes)


def fields(unit: Unit, plan: Arrangement) -> Iterator[FieldChange]:
    """Slices as they are cut inside, and as they will be."""
    for name, inside in plan.inside.items():
        one = plan.keep[name]
        after = f"{one.instance}{compute.with_compute(inside.sizes, one.slices)}"
        yield FieldChange(f"{unit.prefix}slices.{name}", str(one), after)


def reasons(plan: Arrangement) -> Iterator[str]:
    """Why: nobody can use a slice without a compute instance."""
    lone = [name for name in plan.inside if not plan.keep[name].instance.devices]
    if lone:
        yield f"compute instance missing: no program can use {listed(lone)} without one"


def interrupts(unit: Unit, plan: Arrangement) -> Iterator[str]:
    """What stops serving."""
    for name, one, gone in _going(plan):
        if users := one.computes[gone.id].all:
            yield f"compute instance {gone.slices}c of slice {unit.called(name)} goes: {listed(users)}"


def disturbs(unit: Unit, plan: Arrangement) -> Mapping[Address, str]:
    """Compute instances that go or come."""
    found: dict[Address, str] = {}
    for name, one, gone in _going(plan):
        found[_part(unit, name, one, gone)] = f"a compute instance of slice {unit.address.name}/{name} goes"
    for name, inside in plan.inside.items():
        for part in _missing(unit, name, inside):
            found[part] = f"slice {unit.address.name}/{name} gets a new compute instance"
    return found


def in_the_way(unit: Unit, plan: Arrangement) -> Iterator[Unmanaged]:
    """Compute instances that somebody else made or uses and that would have to go."""
    for name, one, gone in _going(plan):
        part, target = _part(unit, name, one, gone), unit.address.part(name)
        called = f"compute instance {gone.slices}c of slice {one.called(unit)} on {unit.address.name}"
        if not one.owns(gone):
            yield Unmanaged(part, f"{called} was not made by this plan file", target, "unmanaged-slice")
        if strangers := one.computes[gone.id].strangers:
            yield Unmanaged(part, f"{called} is used by {listed(strangers)}", target, "busy-slice")


def _going(plan: Arrangement) -> Iterator[tuple[str, Standing, Compute]]:
    for name, inside in plan.inside.items():
        yield from ((name, plan.keep[name], gone) for gone in inside.going)


def _missing(unit: Unit, name: str, inside: Inside) -> tuple[Address, ...]:
    slice_ = unit.address.part(name)
    return tuple(compute.part_of(slice_, number, inside.sizes) for number in inside.missing)


def _part(unit: Unit, name: str, one: Standing, gone: Compute) -> Address:
    """By the number under which it was made, else by its size and id."""
    slice_ = unit.address.part(name)
    if one.known and gone.id in one.known:
        return compute.part_of(slice_, one.known.index(gone.id), one.known)
    return slice_ if len(one.instance.computes) == 1 else slice_.part(f"{gone.slices}c@{gone.id}")


def _sizes(inside: Inside) -> str:
    return listed(f"{inside.sizes[number]}c" for number in inside.missing)
