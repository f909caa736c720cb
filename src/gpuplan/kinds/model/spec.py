"""What the plan file implies: for each model server of a node, the models that it should have loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from gpuplan.intent.expand import containers_on, models_on
from gpuplan.intent.planfile import PlanFile
from gpuplan.intent.sources import sources_on
from gpuplan.kinds.model.wanted import Wanted
from gpuplan.kinds.room import Told
from gpuplan.model.address import Address
from gpuplan.model.diagnostic import Diagnostic
from gpuplan.model.inventory import Host
from gpuplan.model.resource import Desired


def spec(plan: PlanFile, host: Host) -> Told:
    """One resource for each model of each model server. What is wrong with a source is told by the repository room."""
    desired: list[Desired] = []
    faults: list[Diagnostic] = []
    for placed in containers_on(plan, host):
        if placed.container.triton is None:
            faults.extend(_not_a_server(plan, host, placed.name, str(placed.path[1])))
            continue
        needs = _needs(plan, host, placed.name)
        faults.extend(_strangers(plan, placed.name, needs))
        faults.extend(_circle(plan, needs))
        desired.extend(_desired(plan, host, placed.name, needs))
    return desired, faults


def _desired(plan: PlanFile, host: Host, container: str, needs: Mapping[str, tuple[str, ...]]) -> Iterator[Desired]:
    sources, _ = sources_on(plan, host, container)
    home = Address(host.name, "model", container)
    for source in sources:
        wanted = Wanted(
            container, source.model, source.content, source.versions, plan.models[source.model].load_timeout
        )
        yield Desired(
            home.part(source.model),
            wanted.json(),
            (
                Address(host.name, "container", container),
                Address(host.name, "repository", container).part(source.model),
                *(home.part(part) for part in needs[source.model]),
            ),
            plan.where("models", source.model),
        )


def _needs(plan: PlanFile, host: Host, container: str) -> Mapping[str, tuple[str, ...]]:
    """Model → the models that it is composed of or says that it calls."""
    parts = {source.model: source.parts for source in sources_on(plan, host, container)[0]}
    return {
        name: tuple(dict.fromkeys((*parts.get(name, ()), *model.depends_on)))
        for name, model in models_on(plan, host, container)
    }


def _strangers(plan: PlanFile, container: str, needs: Mapping[str, tuple[str, ...]]) -> Iterator[Diagnostic]:
    for name in needs:
        for position, other in enumerate(plan.models[name].depends_on):
            if other not in needs:
                yield Diagnostic(
                    "A model depends on one that is not served beside it",
                    f"{name} depends on {other}, which {container} does not serve.",
                    f"Add {container} to the containers of {other}, or take it out of depends_on.",
                    plan.where("models", name, "depends_on", position),
                )


def _circle(plan: PlanFile, needs: Mapping[str, tuple[str, ...]]) -> Iterator[Diagnostic]:
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


def _not_a_server(plan: PlanFile, host: Host, container: str, stated: str) -> Iterator[Diagnostic]:
    for name, _ in models_on(plan, host, container):
        yield Diagnostic(
            "A model is on a container that is no model server",
            f"{name} is to be served by {stated}, which has no triton: section.",
            f"Add triton: {{}} to {stated}, or name another container.",
            plan.where("models", name, "containers"),
        )
