"""Acts on slices and their compute instances; each is noted before it is begun and believed after a second look."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from gpuplan.resources.gpu import compute, memory
from gpuplan.resources.gpu.apply import refusals, rollback
from gpuplan.resources.gpu.apply.task import Fact, Task
from gpuplan.resources.gpu.compute import Inside, inside
from gpuplan.resources.gpu.observed import Gpu, Instance, instance_at
from gpuplan.resources.gpu.placement.solve.geometry import Place, geometry_of
from gpuplan.resources.gpu.placement.solve.solve import Live, Wanted, place
from gpuplan.types.address import parse_address
from gpuplan.types.diagnostic import ConnectionLost, Problem


def destroy(task: Task) -> list[Fact]:
    """A slice goes, with what is in it."""
    profile, start = task.text("profile"), task.number("start")
    observed, gpu = task.look()
    instance = instance_at(gpu, profile, start)
    if instance is not None:
        if instance.id != task.number("instance"):
            raise Problem(refusals.another_stands_there(task.step, instance))
        refusals.refuse_if_held(task.step, observed, gpu, instance)
        task.act("mig.destroy", instance=instance.id, profile_id=instance.profile_id, start=start)
        _, gpu = task.look()
        if instance_at(gpu, profile, start) is not None:
            raise Problem(refusals.did_not_converge(task.step, f"the slice {instance} still stands"))
    task.context.say(f"no {profile} stands at {start}")
    forget = task.step.payload.get("forget")
    return [(parse_address(forget), None)] if isinstance(forget, str) else []


def create(task: Task) -> list[Fact]:
    """A slice comes; where that fails, what stood in its place before comes back.

    Where it will stand is remembered before: whoever is killed right after the act leaves a slice that
    is known as ours.
    """
    profile = task.text("profile")
    _, gpu = task.look()
    if not gpu.current:
        raise Problem(refusals.did_not_converge(task.step, f"MIG mode of {gpu.uuid} is off"))
    stated = task.step.payload.get("start")
    there = instance_at(gpu, profile, stated) if isinstance(stated, int) else None
    if there is not None:
        return _completed(task, there)
    try:
        return _created(task, gpu)
    except ConnectionLost:
        raise
    except Problem:
        rollback.take_back(task)
        raise


def destroy_compute(task: Task) -> list[Fact]:
    """A compute instance goes out of a slice that stays."""
    number = task.number("compute")
    observed, gpu = task.look()
    instance = _standing(task, gpu)
    if any(one.id == number for one in instance.computes):
        refusals.refuse_if_held(task.step, observed, gpu, instance, number)
        start = instance.start
        task.act(
            "mig.destroy_compute", instance=instance.id, profile_id=instance.profile_id, start=start, compute=number
        )
        _, gpu = task.look()
        instance = _standing(task, gpu)
        if any(one.id == number for one in instance.computes):
            raise Problem(refusals.did_not_converge(task.step, f"{instance} still has its compute instance {number}"))
    task.context.say(f"{instance} has no compute instance {number}")
    return [_fact(task, gpu, instance, None)]


def complete(task: Task) -> list[Fact]:
    """A slice that stands gets the compute instances that it lacks."""
    _, gpu = task.look()
    return _completed(task, _standing(task, gpu))


def _created(task: Task, gpu: Gpu) -> list[Fact]:
    profile = task.text("profile")
    start, size = _place(task, gpu)
    kind = gpu.profile(profile)
    task.context.remember([(task.step.makes[0], memory.slice_fact(gpu.uuid, profile, start, size))])
    task.context.say(f"creating {profile} at {start}")
    sizes = task.numbers("compute")
    task.act("mig.create", profile_id=kind.id if kind else -1, start=start, size=size, compute=sizes or None)
    return [_confirmed(task, profile, start)]


def _completed(task: Task, instance: Instance) -> list[Fact]:
    _, gpu = task.look()
    lacks = _inside(task, gpu, instance)
    if lacks.missing:
        # Which number gets which id is known afterwards; until then all of them count as made by us.
        task.context.remember([_fact(task, gpu, instance, None)])
        task.act("mig.create_compute", instance=instance.id, compute=[lacks.sizes[number] for number in lacks.missing])
    task.context.say(f"{instance} stands")
    return [_confirmed(task, instance.profile, instance.start)]


def _confirmed(task: Task, profile: str, start: int) -> Fact:
    """The second look: the slice stands and can be used."""
    _, gpu = task.look()
    instance = instance_at(gpu, profile, start)
    if instance is None:
        raise Problem(refusals.did_not_converge(task.step, f"no {profile} stands at {start}"))
    now = _inside(task, gpu, instance)
    if now.missing:
        what = compute.shown(instance, 0)
        raise Problem(refusals.did_not_converge(task.step, f"the slice {what} lacks a compute instance"))
    for one in now.there:
        if one is not None:
            task.context.say(f"{instance} is {one.uuid}")
    return _fact(task, gpu, instance, now.ids)


def _fact(task: Task, gpu: Gpu, instance: Instance, ids: Sequence[int] | None) -> Fact:
    adopted = bool(task.step.payload.get("adopted"))
    fact = memory.slice_fact(gpu.uuid, instance.profile, instance.start, instance.size, ids)
    return parse_address(task.text("slice")), {**fact, "adopted": True} if adopted else fact


def _inside(task: Task, gpu: Gpu, instance: Instance) -> Inside:
    profile = gpu.profile(instance.profile)
    sizes = task.numbers("compute") if task.text("act") == "create" else task.numbers("sizes")
    return inside(sizes or (profile.slices if profile else 0,), instance.computes, task.numbers("known"))


def _standing(task: Task, gpu: Gpu) -> Instance:
    profile, start = task.text("profile"), task.number("start")
    instance = instance_at(gpu, profile, start)
    if instance is None:
        raise Problem(refusals.did_not_converge(task.step, f"no {profile} stands at {start} any more"))
    return instance


def _place(task: Task, gpu: Gpu) -> Place:
    """Where the slice goes: as planned where the node's own table has that place, else solved by that table."""
    profile, start = task.text("profile"), task.step.payload.get("start")
    geometry = geometry_of(gpu)
    if geometry is None or profile not in geometry.by_name:
        raise Problem(refusals.no_place(task.step, gpu))
    planned = [each for each in geometry.by_name[profile].placements if each[0] == start]
    if planned:
        return planned[0]
    instances = () if not isinstance(gpu.instances, tuple) else gpu.instances
    live = [Live(each.profile, each.start, each.size) for each in instances]
    name = parse_address(task.text("slice")).name.rpartition("/")[2]
    places = place(geometry, live, [Wanted(*each) for each in task.still_wanted(gpu, name)])
    if places is None or name not in places:
        raise Problem(refusals.no_place(task.step, gpu))
    return places[name]


ACTS: Mapping[str, Callable[[Task], list[Fact]]] = MappingProxyType(
    {"destroy": destroy, "create": create, "compute": complete, "destroy_compute": destroy_compute}
)
"""The acts of this file by name."""
