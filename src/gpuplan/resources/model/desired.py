"""What the plan file implies: for each model server of a node, the models that it should have loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from gpuplan.planfile.expand import Placed, containers_on, models_on
from gpuplan.planfile.schema import PlanFile
from gpuplan.planfile.select import slices_of
from gpuplan.planfile.sources import Served, Source, served_on, sources_on
from gpuplan.resources.kind import Told
from gpuplan.resources.model.budget import Budget, groups_of
from gpuplan.resources.model.smoke.stated import asked_of, faults_on
from gpuplan.resources.model.wanted import Wanted
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.inventory import Host
from gpuplan.types.resource import Desired
from gpuplan.types.value import JsonObject

THREADS = "http-thread-count"
"""The flag of the threads that answer HTTP; eight where it is not stated."""


def spec(plan: PlanFile, host: Host) -> Told:
    """One resource for each model of each model server. What is wrong with a source is told by the repository room."""
    desired: list[Desired] = []
    faults: list[Diagnostic] = []
    for placed in containers_on(plan, host):
        if placed.container.triton is not None:
            sources, _ = sources_on(plan, host, placed.name)
            needs = _needs(plan, host, placed.name, sources)
            faults.extend(_circle(plan, needs))
            faults.extend(faults_on(plan, host, placed))
            found: list[Source | Served] = [*sources, *served_on(plan, host, placed.name)]
            desired.extend(_desired(plan, host, placed, each, needs[each.model]) for each in found)
    return desired, faults


def _desired(plan: PlanFile, host: Host, placed: Placed, each: Source | Served, parts: Sequence[str]) -> Desired:
    container, model = placed.name, each.model
    home = Address(host.name, "model", container)
    patience = plan.models[model].load_timeout
    wanted = Wanted(
        container, model, each.content, each.versions, patience, "", (), _budget(plan, placed, each), _abreast(placed)
    )
    files: tuple[Address, ...] = (Address(host.name, "repository", container).part(model),)
    if isinstance(each, Served):
        wanted, files = replace(wanted, repository=each.place, overlay=each.overlay), ()
    needs = (Address(host.name, "container", container), *files, *(home.part(part) for part in parts))
    asked = asked_of(plan.models[model])
    proof = None if asked is None else asked.json()
    return Desired(home.part(model), wanted.json(), needs, plan.where("models", model), proof)


def _abreast(placed: Placed) -> int:
    """How many loads a server with few threads bears: each holds one until it ends, and one is left to be asked by."""
    stated = str(placed.container.triton.flags.get(THREADS, "")) if placed.container.triton else ""
    return max(1, int(stated) - 1) if stated.isdecimal() else 0


def _budget(plan: PlanFile, placed: Placed, each: Source | Served) -> Budget | None:
    """The memory that a model is stated to take, and the GPUs and slices that it is to take it of."""
    memory, triton = plan.models[each.model].memory, placed.container.triton
    if memory is None or triton is None:
        return None
    config: JsonObject = each.config if isinstance(each, Source) else _last_groups(each.overlay)
    backend = each.backend if isinstance(each, Source) else ""
    stated = {name: size for name in placed.container.gpus if (size := _slice(plan, name)) is not None}
    return Budget(memory, groups_of(config), backend, placed.container.gpus, stated, triton.overcommit)


def _last_groups(overlay: Sequence[JsonObject]) -> JsonObject:
    stated = [layer["instance_group"] for layer in overlay if layer.get("instance_group") is not None]
    return {"instance_group": stated[-1]} if stated else {}


def _slice(plan: PlanFile, device: str) -> JsonObject | None:
    """How the plan file states the size of a slice, by which its memory is known before it is there."""
    gpu, _, part = device.partition("/")
    stated = plan.gpus[gpu.partition("[")[0]].mig if part and gpu.partition("[")[0] in plan.gpus else None
    found = dict(slices_of(stated)).get(part) or dict(slices_of(stated)).get(part.rpartition("/")[0])
    if found is None:
        return None
    return {"profile": found.profile} if found.profile is not None else {"memory": found.memory}


def _needs(plan: PlanFile, host: Host, container: str, sources: Sequence[Source]) -> Mapping[str, tuple[str, ...]]:
    """Model → the models that it is composed of or says that it calls."""
    parts = {source.model: source.parts for source in sources}
    return {
        name: tuple(dict.fromkeys((*parts.get(name, ()), *model.depends_on)))
        for name, model in models_on(plan, host, container)
    }


def _circle(plan: PlanFile, needs: Mapping[str, tuple[str, ...]]) -> Iterator[Diagnostic]:
    """A circle through an ensemble's steps, which the plan file alone does not show."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as fault:
        circle: list[str] = fault.args[1]
        yield Diagnostic(
            "Models depend on one another in a circle",
            f"None of them can be loaded first: {' → '.join(circle)}.",
            "Take one of them out of depends_on, or out of the ensemble.",
            plan.where("models", circle[0]),
        )
