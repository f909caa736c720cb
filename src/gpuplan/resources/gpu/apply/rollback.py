"""Restoring: after a slice could not be created, what stood before it comes back, at its old place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuplan.resources.gpu import memory, words
from gpuplan.resources.gpu.apply.task import Task
from gpuplan.resources.gpu.observed import Gpu, instance_at
from gpuplan.resources.gpu.placement.solve.search import cells
from gpuplan.types.address import parse_address
from gpuplan.types.diagnostic import ConnectionLost, Problem
from gpuplan.types.value import Json, JsonObject, as_list, as_object


@dataclass(frozen=True)
class _Former:
    """A slice that stood before."""

    part: str | None
    profile: str
    profile_id: int
    start: int
    size: int
    compute: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.profile} at {self.start}"


def take_back(task: Task) -> None:
    """Forget the slice that does not stand, and put back the former ones whose place is free; says what became of each.

    Raises:
        ConnectionLost: the node is out of reach; nothing else is raised, since the failure itself is to be told.
    """
    try:
        _forget(task)
        for former in _formers(task.step.payload.get("restore")):
            _put_back(task, former)
    except ConnectionLost:
        raise
    except Problem as problem:
        task.context.say(f"nothing more was put back: {words.told(problem)}")


def _forget(task: Task) -> None:
    profile, start, part = task.text("profile"), task.step.payload.get("start"), parse_address(task.text("slice"))
    _, gpu = task.look()
    if not isinstance(start, int) or instance_at(gpu, profile, start) is None:
        task.context.remember([(part, None)])


def _put_back(task: Task, former: _Former) -> None:
    _, gpu = task.look()
    if instance_at(gpu, former.profile, former.start) is not None:
        return
    if in_its_place := [str(each) for each in _live(gpu) if _overlap(each.start, each.size, former)]:
        task.context.say(f"{former} cannot be put back: {words.listed(in_its_place)} stands there")
        return
    task.act(
        "mig.create",
        profile_id=former.profile_id,
        start=former.start,
        size=former.size,
        compute=list(former.compute) or None,
    )
    _, gpu = task.look()
    instance = instance_at(gpu, former.profile, former.start)
    if instance is None:
        task.context.say(f"{former} could not be put back: a second look does not find it")
        return
    if former.part is not None:
        ids = [one.id for one in instance.computes]
        fact = memory.slice_fact(gpu.uuid, former.profile, former.start, former.size, ids)
        task.context.remember([(parse_address(former.part), fact)])
    task.context.say(f"{former} was put back: it is {words.listed(instance.devices)}")


def _live(gpu: Gpu) -> Iterator[_Former]:
    for each in gpu.instances if isinstance(gpu.instances, tuple) else ():
        yield _Former(None, each.profile, each.profile_id, each.start, each.size, ())


def _overlap(start: int, size: int, former: _Former) -> bool:
    return bool(cells(start, size) & cells(former.start, former.size))


def _formers(stated: Json) -> Iterator[_Former]:
    for each in as_list(stated) if stated is not None else ():
        former: JsonObject = as_object(each)
        part, numbers = former["part"], {key: int(str(former[key])) for key in ("profile_id", "start", "size")}
        compute = tuple(int(str(size)) for size in as_list(former["compute"]))
        yield _Former(part if isinstance(part, str) else None, str(former["profile"]), **numbers, compute=compute)
