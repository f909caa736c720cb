"""Create and destroy slices and their compute instances; each is recorded before it is created."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.resources.gpu.apply.step import Fact, RunningStep
from gpuplan.resources.gpu.compute_instances import ComputePlan, plan_compute, with_compute
from gpuplan.resources.gpu.desired import SliceSpec
from gpuplan.resources.gpu.observed import GpuInstance, ObservedGpu, Placement
from gpuplan.resources.gpu.placement.arrange import PlacedSlice
from gpuplan.resources.gpu.placement.geometry import cells, geometry_of
from gpuplan.resources.gpu.placement.solve import place_beside
from gpuplan.resources.gpu.recorded import RecordedSlice
from gpuplan.resources.gpu.steps import CreateComputeInstances, CreateSlice, DestroyComputeInstance, DestroySlice
from gpuplan.types.diagnostic import ConnectionLost, Problem, join_words


def destroy(run: RunningStep, payload: DestroySlice) -> list[Fact]:
    """Destroy a slice with its compute instances."""
    instance = run.look_at_gpu().instance_at(payload.profile, payload.start)
    if instance is not None:
        if instance.id != payload.instance_id:
            raise run.problem(
                "The slice was re-created",
                f"“{run.step.title}” was not done: {instance} was re-created since the plan was made.",
                "Run gpuplan plan again.",
            )
        run.refuse_if_used(instance, allowed=payload.allowed_users)
        run.agent("mig.destroy", instance=instance.id, profile_id=instance.profile_id, start=instance.start)
        if run.look_at_gpu().instance_at(payload.profile, payload.start) is not None:
            raise run.not_converged(f"the slice {instance} still exists")
    run.say(f"removed {payload.profile} at {payload.start}")
    return [(payload.recorded_as, None)] if payload.recorded_as else []


def create(run: RunningStep, payload: CreateSlice) -> list[Fact]:
    """Create a slice; if that fails, put back what was destroyed for it."""
    placed, gpu = payload.slice, run.look_at_gpu()
    if not gpu.mig_enabled:
        raise run.not_converged(f"MIG mode of {gpu.uuid} is off")
    existing = None if placed.start is None else gpu.instance_at(placed.profile, placed.start)
    if existing is not None:
        return [_complete(run, placed, existing)]
    try:
        return [_create(run, payload, gpu)]
    except ConnectionLost:
        raise
    except Problem:
        _roll_back(run, payload)
        raise


def create_compute(run: RunningStep, payload: CreateComputeInstances) -> list[Fact]:
    """Create the compute instances that an existing slice lacks."""
    instance = _existing(run, payload)
    placed = PlacedSlice(payload.address, payload.profile, payload.start, instance.size, payload.sizes)
    return [_complete(run, placed, instance, payload.recorded_ids, payload.adopted)]


def destroy_compute(run: RunningStep, payload: DestroyComputeInstance) -> list[Fact]:
    """Destroy one compute instance of a slice that stays."""
    instance, id_ = _existing(run, payload), payload.compute_id
    if _has_compute(instance, id_):
        run.refuse_if_used(instance, id_, payload.allowed_users)
        run.agent(
            "mig.destroy_compute",
            instance=instance.id,
            profile_id=instance.profile_id,
            start=instance.start,
            compute=id_,
        )
        instance = _existing(run, payload)
        if _has_compute(instance, id_):
            raise run.not_converged(f"{instance} still has its compute instance {id_}")
    run.say(f"removed compute instance {id_} of {instance}")
    placed = PlacedSlice(payload.address, payload.profile, payload.start, instance.size)
    return [_fact(run, placed, instance, None, payload.adopted)]


def _has_compute(instance: GpuInstance, id_: int) -> bool:
    return any(compute.id == id_ for compute in instance.compute_instances)


def _existing(run: RunningStep, payload: CreateComputeInstances) -> GpuInstance:
    instance = run.look_at_gpu().instance_at(payload.profile, payload.start)
    if instance is None:
        raise run.not_converged(f"there is no {payload.profile} at {payload.start} any more")
    return instance


def _create(run: RunningStep, payload: CreateSlice, gpu: ObservedGpu) -> Fact:
    """Record the slice first: if gpuplan is killed right after the operation, the slice is known as ours."""
    placed = payload.slice
    start, size = _placement(run, payload, gpu)
    if placed.address is not None:
        recorded = RecordedSlice(placed.address, gpu.uuid, placed.profile, start, size)
        run.context.remember([(placed.address, recorded.fact())])
    run.say(f"creating {placed.profile} at {start}")
    _agent_create(run, gpu, placed, start, size)
    instance = run.look_at_gpu().instance_at(placed.profile, start)
    if instance is None:
        raise run.not_converged(f"there is no {placed.profile} at {start}")
    return _confirm(run, placed, instance)


def _agent_create(run: RunningStep, gpu: ObservedGpu, placed: PlacedSlice, start: int, size: int) -> None:
    profile = gpu.profile(placed.profile)
    run.agent(
        "mig.create",
        profile_id=profile.id if profile else -1,
        start=start,
        size=size,
        compute=placed.compute or None,
    )


def _complete(
    run: RunningStep,
    placed: PlacedSlice,
    instance: GpuInstance,
    recorded_ids: Sequence[int] = (),
    adopted: bool = False,
) -> Fact:
    """Create the compute instances that an instance lacks."""
    plan = _plan_compute(run.look_at_gpu(), placed, instance, recorded_ids)
    if plan.missing:
        # Which number gets which id is known afterwards; until then all of them count as made by this plan file.
        run.context.remember([_fact(run, placed, instance, None, adopted)])
        sizes = [plan.sizes[number] for number in plan.missing]
        run.agent("mig.create_compute", instance=instance.id, compute=sizes)
    run.say(f"{instance} exists")
    now = run.look_at_gpu().instance_at(instance.profile, instance.start)
    if now is None:
        raise run.not_converged(f"there is no {instance}")
    return _confirm(run, placed, now, recorded_ids, adopted)


def _confirm(
    run: RunningStep,
    placed: PlacedSlice,
    instance: GpuInstance,
    recorded_ids: Sequence[int] = (),
    adopted: bool = False,
) -> Fact:
    """The second look shows the slice; it must be usable too."""
    plan = _plan_compute(run.look_at_gpu(), placed, instance, recorded_ids)
    if plan.missing:
        sizes = [compute.slices for compute in instance.compute_instances]
        raise run.not_converged(f"the slice {instance}{with_compute(sizes, 0)} lacks a compute instance")
    for match in plan.matches:
        if match is not None:
            run.say(f"{instance} is {match.uuid}")
    return _fact(run, placed, instance, plan.ids, adopted)


def _plan_compute(
    gpu: ObservedGpu, placed: PlacedSlice, instance: GpuInstance, recorded_ids: Sequence[int]
) -> ComputePlan:
    profile = gpu.profile(instance.profile)
    sizes = placed.compute or (profile.slices if profile else 0,)
    return plan_compute(sizes, instance.compute_instances, recorded_ids)


def _fact(
    run: RunningStep, placed: PlacedSlice, instance: GpuInstance, ids: Sequence[int] | None, adopted: bool
) -> Fact:
    address = placed.address or run.step.address
    known = None if ids is None else tuple(ids)
    recorded = RecordedSlice(address, run.uuid, instance.profile, instance.start, instance.size, known, adopted)
    return address, recorded.fact()


def _placement(run: RunningStep, payload: CreateSlice, gpu: ObservedGpu) -> Placement:
    """As planned if the node's own table has that placement, else solved with that table."""
    placed, geometry = payload.slice, geometry_of(gpu)
    if geometry is None or placed.profile not in geometry.by_name:
        raise _no_placement(run, gpu)
    planned = [place for place in geometry.by_name[placed.profile].placements if place[0] == placed.start]
    if planned:
        return planned[0]
    placements = place_beside(geometry, gpu.known_instances, _still_missing(payload, gpu))
    if placements is None or placed.name not in placements:
        raise _no_placement(run, gpu)
    return placements[placed.name]


def _still_missing(payload: CreateSlice, gpu: ObservedGpu) -> list[SliceSpec]:
    """This slice, and the desired ones that have no instance of their profile yet."""
    profiles = [instance.profile for instance in gpu.known_instances]
    missing: list[SliceSpec] = []
    for desired in payload.desired:
        if desired.name != payload.slice.name and desired.profile in profiles:
            profiles.remove(desired.profile)
        else:
            missing.append(SliceSpec(desired.name, desired.profile))
    return missing


def _no_placement(run: RunningStep, gpu: ObservedGpu) -> Problem:
    existing = join_words(str(instance) for instance in gpu.known_instances)
    return run.problem(
        "No placement for the slice",
        f"“{run.step.title}” was not done: this {gpu.name} has no placement for it next to {existing}.",
        "Run gpuplan plan again: with MIG mode on, the node reports its placements.",
    )


def _roll_back(run: RunningStep, payload: CreateSlice) -> None:
    """Forget the slice that does not exist, and put back the destroyed ones whose place is free.

    Raises:
        ConnectionLost: the node cannot be reached; nothing else, since the failure itself is to be reported.
    """
    placed = payload.slice
    try:
        gpu = run.look_at_gpu()
        exists = placed.start is not None and gpu.instance_at(placed.profile, placed.start) is not None
        if placed.address is not None and not exists:
            run.context.remember([(placed.address, None)])
        for destroyed in payload.restore:
            _put_back(run, destroyed)
    except ConnectionLost:
        raise
    except Problem as problem:
        reasons = "; ".join(f"{diagnostic.summary}: {diagnostic.detail}" for diagnostic in problem.diagnostics)
        run.say(f"stopped putting slices back: {reasons}")


def _put_back(run: RunningStep, destroyed: PlacedSlice) -> None:
    gpu = run.look_at_gpu()
    start, size = destroyed.start or 0, destroyed.size or 0
    title = f"{destroyed.profile} at {start}"
    if gpu.instance_at(destroyed.profile, start) is not None:
        return
    overlapping = [
        str(instance) for instance in gpu.known_instances if cells(instance.start, instance.size) & cells(start, size)
    ]
    if overlapping:
        run.say(f"cannot put back {title}: its place is taken by {join_words(overlapping)}")
        return
    _agent_create(run, gpu, destroyed, start, size)
    instance = run.look_at_gpu().instance_at(destroyed.profile, start)
    if instance is None:
        run.say(f"could not put back {title}: the node reported success, but it does not exist")
        return
    if destroyed.address is not None:
        ids = [compute.id for compute in instance.compute_instances]
        run.context.remember([_fact(run, destroyed, instance, ids, adopted=False)])
    run.say(f"put back {title}: it is {join_words(instance.devices)}")
