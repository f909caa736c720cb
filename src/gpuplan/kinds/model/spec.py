"""What the plan file implies: for each model server of a node, the models that it should have loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from gpuplan.intent.expand import containers_on, models_on
from gpuplan.intent.planfile import PlanFile
from gpuplan.intent.sources import Source, sources_on
from gpuplan.kinds.model.smoke.stated import asked_of, faults_on
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
        if placed.container.triton is not None:
            sources, _ = sources_on(plan, host, placed.name)
            needs = _needs(plan, host, placed.name, sources)
            faults.extend(_circle(plan, needs))
            faults.extend(faults_on(plan, host, placed))
            desired.extend(_desired(plan, host, placed.name, source, needs[source.model]) for source in sources)
    return desired, faults


def _desired(plan: PlanFile, host: Host, container: str, source: Source, parts: Sequence[str]) -> Desired:
    model = source.model
    home = Address(host.name, "model", container)
    wanted = Wanted(container, model, source.content, source.versions, plan.models[model].load_timeout)
    needs = (
        Address(host.name, "container", container),
        Address(host.name, "repository", container).part(model),
        *(home.part(part) for part in parts),
    )
    asked = asked_of(plan.models[model])
    proof = None if asked is None else asked.json()
    return Desired(home.part(model), wanted.json(), needs, plan.where("models", model), proof)


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
