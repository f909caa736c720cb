"""The diff door of the gpu room: MIG mode and slices, wanted and live, into changes, bindings and refusals."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuplan.resources.gpu import changes, memory, settings, users, words
from gpuplan.resources.gpu.changes import UnitChange
from gpuplan.resources.gpu.compute import part_of
from gpuplan.resources.gpu.desired import GpuSpec, read_spec
from gpuplan.resources.gpu.modes import Way, way
from gpuplan.resources.gpu.observed import Compute
from gpuplan.resources.gpu.placement.solve.arrange import (
    Arrangement,
    Standing,
    arrange,
    everything_goes,
    kept,
    only_ours_go,
    paired,
    standing,
)
from gpuplan.resources.gpu.placement.solve.profiles import Settled, settle
from gpuplan.resources.gpu.placement.solve.solve import Shortage
from gpuplan.resources.gpu.read import ObservedGpus
from gpuplan.resources.gpu.units import Unit, resolve
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, Comparison, Unmanaged, Unreadable
from gpuplan.types.diagnostic import Diagnostic, Location
from gpuplan.types.record import Record
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import ProbeError
from gpuplan.types.value import KnownAfterApply, digest


@dataclass
class _Findings:
    """What is gathered while GPU after GPU is compared."""

    changes: dict[Address, list[UnitChange]] = field(default_factory=dict)
    bindings: dict[Address, str | KnownAfterApply] = field(default_factory=dict)
    unmanaged: list[Unmanaged] = field(default_factory=list)
    unknown: list[Unreadable] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    rests_on: dict[Address, str] = field(default_factory=dict)


def diff(desired: Sequence[Desired], observed: ObservedGpus, context: DiffContext) -> Comparison:
    """The diff door."""
    resolved = resolve(desired, observed, context.record)
    found = _Findings(unknown=resolved.unknown, diagnostics=resolved.diagnostics)
    where = {each.address: each.where for each in desired}
    named = {unit.address.part(each.name) for unit in resolved.units for each in unit.spec.slices}
    for unit in resolved.units:
        _wanted(unit, named, where.get(unit.resource), observed, context, found)
    dropped = _Findings()
    claimed = {unit.gpu.uuid for unit in resolved.units}
    wanted = {each.address: read_spec(each.spec) for each in desired}
    for address, stated in _no_longer_wanted(wanted, context.record).items():
        _dropped(address, stated, claimed, observed, context, dropped)
    return Comparison(
        changes=(*_changes(found, Action.UPDATE), *_changes(dropped, Action.DELETE)),
        bindings=found.bindings,
        unmanaged=(*found.unmanaged, *dropped.unmanaged),
        unknown=(*found.unknown, *dropped.unknown),
        diagnostics=tuple(found.diagnostics),
        rests_on={**dropped.rests_on, **found.rests_on},
    )


def _wanted(
    unit: Unit,
    named: Collection[Address],
    where: Location | None,
    observed: ObservedGpus,
    context: DiffContext,
    found: _Findings,
) -> None:
    found.bindings[unit.address] = unit.gpu.uuid
    if unit.spec.states_nothing and not observed.left.get(unit.gpu.uuid):
        found.rests_on[unit.address] = digest(unit.gpu.uuid)
        return
    if isinstance(unit.gpu.instances, ProbeError):
        found.unknown.append(Unreadable(unit.address, words.unread(unit.address, unit.gpu.instances, "slices")))
        return
    settled = (
        settle(unit.spec.slices, unit.gpu, unit.address, where) if unit.gpu.supported else Settled(unit.spec.slices)
    )
    unit = unit.cut(settled.slices)
    live = standing(unit.gpu, observed, context.record, context.plan)
    found.rests_on[unit.address] = _seen(unit)
    turning = way(unit.gpu, unit.spec.wants_mig, unit.spec.settings, observed.left.get(unit.gpu.uuid, ()))
    plan: Arrangement | Shortage | None = None
    if faults := [*_faults(unit, where), *settled.faults]:
        found.diagnostics.extend(faults)
    else:
        plan = _arranged(unit, live, named, turning, context.record)
    if isinstance(plan, Shortage):
        found.diagnostics.append(words.no_room(unit.address, unit.gpu, plan, where))
    if not isinstance(plan, Arrangement) or not _take(unit, plan, turning, observed, context, found):
        _bind(unit, kept(unit, paired(unit, live, named)), found, comes=False)
        return
    _bind(unit, plan, found, comes=True)


def _arranged(
    unit: Unit, live: Sequence[Standing], named: Collection[Address], turning: Way, record: Record
) -> Arrangement | Shortage:
    if turning.clears:
        fresh = arrange(unit, (), named, record)
        return replace(fresh, going=tuple(live)) if isinstance(fresh, Arrangement) else fresh
    if unit.spec.mig is None:
        return Arrangement()
    return everything_goes(live) if unit.spec.mig == "disabled" else arrange(unit, live, named, record)


def _take(
    unit: Unit,
    plan: Arrangement,
    turning: Way,
    observed: ObservedGpus,
    context: DiffContext,
    found: _Findings,
    forgets: bool = False,
) -> bool:
    """False where it stays as it is, since what a change would rest on could not be read."""
    gpu_users = users.of_gpu(observed, unit.gpu, context.plan, unit.spec.stop_services)
    change = changes.change_of(unit, plan, turning, context.record, gpu_users, forgets)
    if change.steps and (unread := [*_unread(unit, plan, turning, observed, forgets)]):
        found.unknown.extend(Unreadable(unit.address, each) for each in unread)
        return False
    found.unmanaged.extend(changes.in_the_way(unit, plan, turning, gpu_users))
    found.unmanaged.extend(changes.remembered_by_others(unit, plan, turning, observed.others))
    if not forgets:
        found.unmanaged.extend(changes.bystanders(unit, plan))
    if change.steps:
        found.changes.setdefault(unit.resource, []).append(change)
    return True


def _unread(unit: Unit, plan: Arrangement, turning: Way, observed: ObservedGpus, forgets: bool) -> Iterator[Diagnostic]:
    """Why nobody can tell who would be hit by a change of this GPU."""
    error, passed_over = observed.others.error, () if forgets else plan.strange
    not_ours = any(one.made is None for one in (*plan.going, *passed_over))
    if error is not None and (not_ours or turning.mode is False or turning.clears):
        yield words.unread_others(unit.address, error)
    if isinstance(unit.gpu.processes, ProbeError):
        yield words.unread(unit.address, unit.gpu.processes, "GPU processes")
    if isinstance(observed.containers, ProbeError):
        yield words.unread_containers(unit.address, observed.containers)


def _faults(unit: Unit, where: Location | None) -> Iterator[Diagnostic]:
    gpu = unit.gpu
    yield from settings.faults(unit.address, unit.spec.settings, gpu, where)
    if not gpu.supported and unit.spec.wants_mig:
        yield words.no_mig(unit.address, gpu, where)


def _bind(unit: Unit, plan: Arrangement, found: _Findings, comes: bool) -> None:
    """Each slice, or each compute instance of one that has several, to the MIG device that it is.

    What does not stand is bound to what it will be only where a change makes it (`comes`); else it is left unbound, so
    that nothing is stopped for a device that nobody makes.
    """
    for each in unit.spec.slices:
        slice_, one = unit.address.part(each.name), plan.keep.get(each.name)
        if one is None:
            there: Sequence[Compute | None] = [None] * len(each.compute or (0,))
        else:
            there = one.inside(each).there
        for number, device in enumerate(there):
            part = part_of(slice_, number, there)
            if device is not None:
                found.bindings[part] = device.uuid
            elif comes:
                found.bindings[part] = KnownAfterApply(f"slice {part.name}")


def _no_longer_wanted(wanted: Mapping[Address, GpuSpec], record: Record) -> dict[Address, GpuSpec]:
    """Recorded resources that are not wanted, and GPUs on which an apply began that never came to its end."""
    stated = {
        address: replace(read_spec(recorded.spec), mig=None, settings=settings.Settings())
        for address, recorded in record.resources.items()
        if address.kind == "gpu" and address not in wanted
    }
    several = [*(each for each, spec in wanted.items() if spec.select == "all")]
    several += [each for each, spec in stated.items() if spec.select == "all"]
    for unit in record.remembered:
        uuid = memory.uuid_of(record, unit)
        known = unit in wanted or unit in stated or any(_is_one_of(unit, each) for each in several)
        if uuid is not None and not known:
            stated[unit] = GpuSpec(("uuid", uuid), None)
    return stated


def _dropped(
    address: Address,
    stated: GpuSpec,
    claimed: set[str],
    observed: ObservedGpus,
    context: DiffContext,
    found: _Findings,
) -> None:
    """A GPU that the plan file no longer names: the slices that we made go, and MIG mode is as it was found."""
    for name, uuid in _remembered_units(address, stated, context.record).items():
        if observed.error is not None:
            found.unknown.append(Unreadable(address, words.unread(address, observed.error)))
            return
        gpu = observed.gpu(uuid)
        if gpu is None and observed.lost:
            found.unknown.append(Unreadable(address, words.lost(address, observed.lost[0])))
        if gpu is None or uuid in claimed:
            continue
        claimed.add(uuid)
        if isinstance(gpu.instances, ProbeError):
            found.unknown.append(Unreadable(address, words.unread(address, gpu.instances, "slices")))
            continue
        _undo(Unit(name, address, stated, gpu), observed, context, found)


def _undo(unit: Unit, observed: ObservedGpus, context: DiffContext, found: _Findings) -> None:
    plan = only_ours_go(standing(unit.gpu, observed, context.record, context.plan))
    turns_off = unit.gpu.current and unit.gpu.pending and memory.found_on(context.record, unit.gpu.uuid) is False
    before = memory.found_settings(context.record, unit.gpu.uuid)
    shared = bool(plan.strange or observed.others.on(unit.gpu.uuid))
    if shared:
        # ECC comes back only with a reset, which no slice of the others outlives.
        before = replace(before, ecc=None)
    turning = way(unit.gpu, False if turns_off and not shared else None, before, observed.left.get(unit.gpu.uuid, ()))
    found.rests_on[unit.address] = _seen(unit)
    _take(unit, plan, turning, observed, context, found, forgets=True)


def _remembered_units(address: Address, stated: GpuSpec, record: Record) -> dict[Address, str]:
    """The logical GPUs of a resource that something was made on, with the UUID of each."""
    units = [
        each for each in record.remembered if each == address or (stated.select == "all" and _is_one_of(each, address))
    ]
    return {unit: uuid for unit in units if (uuid := memory.uuid_of(record, unit))}


def _is_one_of(unit: Address, resource: Address) -> bool:
    rest = unit.name.removeprefix(resource.name)
    return (unit.node, unit.kind) == (resource.node, resource.kind) and rest[1:-1].isdigit() and rest[0] == "["


def _changes(found: _Findings, action: Action) -> Iterator[Change]:
    for address, units in found.changes.items():
        replaced = action is Action.UPDATE and any(unit.replaced for unit in units)
        yield Change(
            address,
            Action.REPLACE if replaced else action,
            fields=tuple(each for unit in units for each in unit.fields),
            reasons=tuple(each for unit in units for each in unit.reasons),
            interrupts=tuple(each for unit in units for each in unit.interrupts),
            disturbs={part: why for unit in units for part, why in unit.disturbs.items()},
            steps=tuple(each for unit in units for each in unit.steps),
        )


def _seen(unit: Unit) -> str:
    """Digest of what a comparison rests on; who runs on it comes and goes and is looked at again before each act."""
    gpu = unit.gpu
    now = settings.observed(gpu).stated
    live = () if isinstance(gpu.instances, ProbeError) else gpu.instances
    return digest(
        {
            "uuid": gpu.uuid,
            "mig": [gpu.current, gpu.pending],
            "slices": [[each.profile, each.start, each.size, *each.devices] for each in live],
            **{name: now.get(name) for name in unit.spec.settings.stated},
        }
    )
