"""What a change of one GPU's slices means to people: fields, reasons, what it interrupts, who stands in the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpuplan.nvidia.boards import traits_of
from gpuplan.resources.gpu import insides, memory, users, whole
from gpuplan.resources.gpu.foreign import Others
from gpuplan.resources.gpu.modes import Way
from gpuplan.resources.gpu.placement.solve.arrange import Arrangement, Standing
from gpuplan.resources.gpu.steps import Makings, renames
from gpuplan.resources.gpu.units import Unit
from gpuplan.resources.gpu.words import listed
from gpuplan.types.address import Address
from gpuplan.types.change import FieldChange, Step, Unmanaged
from gpuplan.types.record import Record


@dataclass(frozen=True)
class UnitChange:
    """The difference of one GPU; a resource that selects all GPUs has several."""

    fields: tuple[FieldChange, ...] = ()
    reasons: tuple[str, ...] = ()
    interrupts: tuple[str, ...] = ()
    disturbs: Mapping[Address, str] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    replaced: bool = False
    """It is another GPU than at the last apply."""


def change_of(
    unit: Unit, plan: Arrangement, turning: Way, record: Record, gpu_users: users.Users, forgets: bool = False
) -> UnitChange:
    """Everything about going from what stands to `plan`; empty steps where nothing differs."""
    found = memory.as_found(record, unit.gpu, unit.spec.settings)
    wanted = [unit.address.part(each.name) for each in unit.spec.slices]
    gone = memory.gone(record, unit.address, unit.gpu, wanted)
    lingers = forgets and unit.address not in record.resources
    was = memory.uuid_of(record, unit.address)
    replaced = was is not None and was != unit.gpu.uuid
    steps = Makings(unit, found, gone, forgets, lingers, replaced, gpu_users.strangers).all(plan, turning)
    if not steps:
        return UnitChange()
    other = [FieldChange(f"{unit.prefix}uuid", was, unit.gpu.uuid)] if replaced else []
    return UnitChange(
        fields=(*other, *whole.fields(unit, turning), *_fields(unit, plan), *(_gone(unit, made) for made in gone)),
        reasons=(*_reasons(unit, plan, turning, record), *whole.reasons(unit, turning)),
        interrupts=(*_interrupts(unit, plan), *whole.interrupts(unit, turning, gpu_users)),
        disturbs={
            **({unit.address: f"{unit.address.name} is another GPU"} if replaced else {}),
            **whole.disturbs(unit, turning),
            **_disturbs(unit, plan),
        },
        steps=steps,
        replaced=replaced,
    )


def in_the_way(unit: Unit, plan: Arrangement, turning: Way, gpu_users: users.Users) -> Iterator[Unmanaged]:
    """Strangers' slices and processes that would have to go, each with the guard that refuses."""
    for one in plan.going:
        part = one.part(unit)
        target = _needs_the_place(unit, plan, one)
        called = f"slice {one.called(unit)} on {unit.address.name}"
        short = (
            f" (while it stands, {unit.address.name} is short of {plan.short})"
            if plan.short and target != unit.address
            else ""
        )
        if one.made is None:
            by = f"made by the plan file {one.other}" if one.other else "not made by this plan file"
            yield Unmanaged(part, f"{called} was {by}{short}", target, "unmanaged-slice")
        if one.users.strangers:
            yield Unmanaged(part, f"{called} is used by {listed(one.users.strangers)}{short}", target, "busy-slice")
    yield from insides.in_the_way(unit, plan)
    yield from whole.in_the_way(unit, turning, gpu_users)


def bystanders(unit: Unit, plan: Arrangement) -> Iterator[Unmanaged]:
    """Slices that this plan file did not make and that may stay."""
    for one in plan.strange:
        by = f"the plan file {one.other} made" if one.other else "this plan file did not make"
        what = f"a slice {one.instance} on {unit.address.name} that {by}"
        yield Unmanaged(one.part(unit), what)


def remembered_by_others(unit: Unit, plan: Arrangement, turning: Way, others: Others) -> Iterator[Unmanaged]:
    """Other plan files that count on MIG mode, though no slice of theirs stands now."""
    standing = {one.other for one in plan.going}
    if turning.mode is False and not turning.takes_back:
        for name in dict.fromkeys(each.plan for each in others.on(unit.gpu.uuid) if each.plan not in standing):
            what = f"{unit.address.name} ({unit.gpu.uuid}) is cut by the plan file {name} too, which needs MIG mode"
            yield Unmanaged(unit.address, what, unit.address, "unmanaged-slice")


def _needs_the_place(unit: Unit, plan: Arrangement, one: Standing) -> Address:
    first, end = one.instance.start, one.instance.start + one.instance.size
    for new in plan.create:
        if new.start is not None and new.size is not None and new.start < end and first < new.start + new.size:
            return unit.address.part(new.name)
    return unit.address


def _fields(unit: Unit, plan: Arrangement) -> Iterator[FieldChange]:
    before = {one.part(unit).name.rpartition("/")[2]: str(one) for one in plan.going}
    after = {new.name: str(new) for new in plan.create}
    renamed = renames(unit, plan)
    for name, one in renamed.items():
        old = one.made.name if one.made else ""
        yield FieldChange(f"{unit.prefix}slices.{name}", f"{one.instance}, called {old}", str(one.instance))
    yield from insides.fields(unit, plan)
    for name in {**before, **after}:
        if name not in plan.keep:
            yield FieldChange(f"{unit.prefix}slices.{name}", before.get(name), after.get(name))


def _gone(unit: Unit, made: memory.MadeSlice) -> FieldChange:
    return FieldChange(f"{unit.prefix}slices.{made.name}", f"{made.profile} at {made.start}, gone already", None)


def _reasons(unit: Unit, plan: Arrangement, turning: Way, record: Record) -> Iterator[str]:
    was = memory.uuid_of(record, unit.address)
    if was is not None and was != unit.gpu.uuid:
        recorded = record.resources.get(unit.resource)
        same = recorded is None or recorded.spec.get("select") == unit.spec.to_json()["select"]
        what = "the GPU was replaced" if same else "the plan file selects another GPU"
        yield f"{what}: {unit.address.name} was {was} and is now {unit.gpu.uuid}"
    traits = traits_of(unit.gpu.name, unit.gpu.architecture)
    made = {each.part for each in memory.made_slices(record) if each.gpu == unit.gpu.uuid}
    if turning.mode and made and traits.architecture and not traits.mode_survives_reboot and not unit.gpu.current:
        yield f"MIG mode does not survive a reboot or a reload of the driver on {traits.architecture}"
    if turning.mode is False and unit.spec.mig is None:
        yield "MIG mode was off before this plan file was first applied"
    yield from _reasons_of_slices(unit, plan, made)


def _reasons_of_slices(unit: Unit, plan: Arrangement, made: set[Address]) -> Iterator[str]:
    yield from insides.reasons(plan)
    if plan.short:
        yield f"beside what this plan file did not make, {unit.address.name} is short of {plan.short}"
    going = {one.made: one.instance for one in plan.going if one.made is not None}
    gone = [new.name for new in plan.create if unit.address.part(new.name) in made - set(going)]
    if gone and not plan.keep and not going:
        yield "none of its slices stands any more; slices never survive a reboot or a reset of the GPU"
    elif gone:
        yield f"{listed(gone)} does not stand any more; somebody else destroyed it"
    stated = {each.name for each in unit.spec.slices if each.start is not None}
    for new in plan.create:
        old = going.get(unit.address.part(new.name))
        if old is not None and old.profile == new.profile and old.start != new.start:
            why = "where the plan file says" if new.name in stated else "to make room"
            yield f"slice {new.name} moves from {old.start} to {new.start} {why}"


def _interrupts(unit: Unit, plan: Arrangement) -> Iterator[str]:
    for one in plan.going:
        if one.users.all:
            yield f"slice {one.called(unit)} goes: {listed(one.users.all)}"
    yield from insides.interrupts(unit, plan)


def _disturbs(unit: Unit, plan: Arrangement) -> Mapping[Address, str]:
    found: dict[Address, str] = {}
    for one in plan.going:
        if one.made is not None:
            found[one.made] = f"slice {one.made.name} goes"
    for new in plan.create:
        found[unit.address.part(new.name)] = f"slice {unit.address.name}/{new.name} is created anew"
    return {**found, **insides.disturbs(unit, plan)}
