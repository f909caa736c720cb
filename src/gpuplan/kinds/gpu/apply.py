"""The apply door of the gpu room: one act through NVML, then a second look; success codes are never believed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from gpuplan.kinds.gpu import memory, refusals, turning
from gpuplan.kinds.gpu.geometry import geometry_of
from gpuplan.kinds.gpu.placement import Live, Place, Wanted, place
from gpuplan.kinds.gpu.read import Gpu, Instance, instance_at
from gpuplan.kinds.gpu.task import Fact, Task
from gpuplan.kinds.room import Hands, Memory
from gpuplan.model.address import parse_address
from gpuplan.model.change import Step
from gpuplan.model.diagnostic import Problem


def apply(step: Step, hands: Hands) -> Memory:
    """The apply door.

    Raises:
        Problem: the node refused, somebody holds what would change, or the second look does not find it done.
    """
    task = Task(step, hands)
    facts = _ACTS[task.text("act")](task)
    unit = parse_address(task.text("unit"))
    forgets = bool(step.arguments.get("forget_gpu"))
    return [*facts, (unit, None if forgets else memory.gpu_fact(task.uuid, step.arguments["found"]))]


def _destroy(task: Task) -> list[Fact]:
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
    task.hands.say(f"no {profile} stands at {start}")
    forget = task.step.arguments.get("forget")
    return [(parse_address(forget), None)] if isinstance(forget, str) else []


def _create(task: Task) -> list[Fact]:
    profile = task.text("profile")
    _, gpu = task.look()
    if not gpu.current:
        raise Problem(refusals.did_not_converge(task.step, f"MIG mode of {gpu.uuid} is off"))
    stated = task.step.arguments.get("start")
    there = instance_at(gpu, profile, stated) if isinstance(stated, int) else None
    if there is not None:
        return _completed(task, there)
    start, size = _place(task, gpu)
    kind = gpu.profile(profile)
    task.hands.say(f"creating {profile} at {start}")
    task.act("mig.create", profile_id=kind.id if kind else -1, start=start, size=size)
    return [_confirmed(task, profile, start)]


def _repair(task: Task) -> list[Fact]:
    profile, start = task.text("profile"), task.number("start")
    _, gpu = task.look()
    instance = instance_at(gpu, profile, start)
    if instance is None:
        raise Problem(refusals.did_not_converge(task.step, f"no {profile} stands at {start} any more"))
    _completed(task, instance)
    return []


def _completed(task: Task, instance: Instance) -> list[Fact]:
    """A slice that stands already; it gets its compute instance where it has none."""
    if not instance.devices:
        task.act("mig.create_compute", instance=instance.id)
    task.hands.say(f"{instance} stands")
    return [_confirmed(task, instance.profile, instance.start)]


def _confirmed(task: Task, profile: str, start: int) -> Fact:
    """The second look: the slice stands and can be used."""
    _, gpu = task.look()
    instance = instance_at(gpu, profile, start)
    if instance is None:
        raise Problem(refusals.did_not_converge(task.step, f"no {profile} stands at {start}"))
    if not instance.devices:
        raise Problem(refusals.did_not_converge(task.step, f"the slice {instance} has no compute instance"))
    task.hands.say(f"{instance} is {instance.devices[0]}")
    part = task.step.makes[0]
    return part, memory.slice_fact(gpu.uuid, profile, start, instance.size)


def _place(task: Task, gpu: Gpu) -> Place:
    """Where the slice goes: as planned where the node's own table has that place, else solved by that table."""
    profile, start = task.text("profile"), task.step.arguments.get("start")
    geometry = geometry_of(gpu)
    if geometry is None or profile not in geometry.by_name:
        raise Problem(refusals.no_place(task.step, gpu))
    planned = [each for each in geometry.by_name[profile].placements if each[0] == start]
    if planned:
        return planned[0]
    instances = () if not isinstance(gpu.instances, tuple) else gpu.instances
    live = [Live(each.profile, each.start, each.size) for each in instances]
    places = place(geometry, live, [Wanted(*each) for each in task.still_wanted(gpu)])
    if places is None or task.text("slice") not in places:
        raise Problem(refusals.no_place(task.step, gpu))
    return places[task.text("slice")]


def _remember(task: Task) -> list[Fact]:
    remember, forget = task.step.arguments["remember"], task.step.arguments["forget"]
    gone: list[Fact] = [(parse_address(str(each)), None) for each in forget] if isinstance(forget, list) else []
    named = remember.items() if isinstance(remember, Mapping) else ()
    return [*gone, *((parse_address(part), fact) for part, fact in named if isinstance(fact, Mapping))]


_ACTS: Mapping[str, Callable[[Task], list[Fact]]] = MappingProxyType(
    {"destroy": _destroy, "create": _create, "repair": _repair, "remember": _remember, **turning.ACTS}
)
