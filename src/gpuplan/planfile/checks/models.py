"""Checks of models: where their files are, which model servers serve them, and what they call."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter

from gpuplan.planfile.checks.references import nearest, path_problem
from gpuplan.planfile.schema import ContainerSection, ModelSection, PlanFile
from gpuplan.planfile.sources.repositories import is_remote
from gpuplan.types.diagnostic import Diagnostic


def check_models(plan: PlanFile) -> Iterator[Diagnostic]:
    """Everything wrong with the models."""
    for name, model in plan.models.items():
        yield from _source(plan, name, model)
        yield from _containers(plan, name, model)
        yield from _overrides(plan, name, model)
        yield from _dependencies(plan, name, model)
        yield from _silences(plan, name, model)
    yield from _cycles(plan)


def _source(plan: PlanFile, name: str, model: ModelSection) -> Iterator[Diagnostic]:
    """A model is brought from its source, or served from a repository that has it already: never both."""
    where = plan.where("models", name, *(["source"] if model.source is not None else []))
    servers = {each: plan.containers[each] for each in model.containers if each in plan.containers}
    remote = [each for each, section in servers.items() if _remote(section)]
    local = [each for each, section in servers.items() if section.triton is not None and not _remote(section)]
    if remote and local:
        detail = f"{name} would be copied to {', '.join(local)}, but {', '.join(remote)} serves its own repository."
        yield Diagnostic(
            "Model uses two kinds of repositories", detail, "Define two models with different names.", where
        )
    elif remote and model.source is not None:
        place = getattr(servers[remote[0]].triton, "repository", "")
        detail = f"{name} has a source, but {', '.join(remote)} serves the models of {place} directly."
        fix = "Remove source:, or set repository: local for that server."
        yield Diagnostic("Model source for an external repository", detail, fix, where)
    elif local and model.source is None:
        fix = "Add source: DIRECTORY, or set the server's repository in triton.repository."
        detail = f"{name} has no source, and {', '.join(local)} serves only models that gpuplan copies to it."
        yield Diagnostic("Model has no source", detail, fix, where)
    elif model.source is not None and (problem := path_problem(plan, model.source, "directory")):
        yield Diagnostic("Model source not found", *problem, where)
    if remote and not local:
        from gpuplan.planfile.sources.repositories import overlay_faults

        yield from overlay_faults(plan, name, model)


def _remote(container: ContainerSection) -> bool:
    return container.triton is not None and is_remote(container.triton.repository)


def _containers(plan: PlanFile, name: str, model: ModelSection) -> Iterator[Diagnostic]:
    servers = [container for container, section in plan.containers.items() if section.triton is not None]
    for number, container in enumerate(model.containers):
        where = plan.where("models", name, "containers", number)
        if container not in plan.containers:
            detail = f"The model {name} is on {container}, which is not defined under containers:."
            yield Diagnostic("Unknown container", detail, nearest(container, servers), where)
        elif container not in servers:
            detail = f"The model {name} is on {container}, which has no triton: section."
            fix = f"Add triton: {{}} to {container}, or use a model server."
            yield Diagnostic("Container is not a model server", detail, fix, where)
        elif container in model.containers[:number]:
            detail = f"The model {name} lists {container} twice."
            yield Diagnostic("Container listed twice", detail, "Remove one of them.", where)


def _overrides(plan: PlanFile, name: str, model: ModelSection) -> Iterator[Diagnostic]:
    for container in model.overrides:
        if container not in model.containers:
            detail = f"The model {name} has overrides for {container}, but is not on that container."
            where = plan.where("models", name, "overrides", container)
            yield Diagnostic(
                "Override for a container without the model",
                detail,
                nearest(container, dict.fromkeys(model.containers)),
                where,
            )


def _dependencies(plan: PlanFile, name: str, model: ModelSection) -> Iterator[Diagnostic]:
    for number, other in enumerate(model.depends_on):
        where = plan.where("models", name, "depends_on", number)
        if other not in plan.models:
            fix = nearest(other, (known for known in plan.models if known != name))
            yield Diagnostic(
                "Unknown model", f"{name} depends on {other}, which is not defined under models:.", fix, where
            )
        elif missing := [each for each in model.containers if each not in plan.models[other].containers]:
            detail = f"{name} calls {other} in the same model server, but {other} is not on {', '.join(missing)}."
            yield Diagnostic("Required model is not on the same server", detail, f"Add {other} there.", where)


def _silences(plan: PlanFile, name: str, model: ModelSection) -> Iterator[Diagnostic]:
    from gpuplan.triton.lint import CHECKS, known_check

    for number, each in enumerate(model.ignore_checks):
        where = plan.where("models", name, "ignore_checks", number, "id")
        if known_check(each.id) is not None:
            continue
        if each.id in CHECKS:
            why = (
                "reports a model that cannot work at all"
                if CHECKS[each.id].fixed
                else "reports on ignore_checks itself"
            )
            detail = f"{each.id} {why}; it cannot be silenced."
            yield Diagnostic("Check cannot be silenced", detail, "Fix what it reports.", where)
        else:
            known = (check for check in CHECKS if known_check(check) is not None)
            near = get_close_matches(each.id, list(known), n=1)
            fix = f"Did you mean {near[0]}?" if near else "docs/checks.md lists all checks."
            yield Diagnostic("Unknown check", f"No check has the id {each.id}.", fix, where)


def _cycles(plan: PlanFile) -> Iterator[Diagnostic]:
    graph = {name: [each for each in model.depends_on if each in plan.models] for name, model in plan.models.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = list(reversed(error.args[1]))
        detail = f"Models depend on one another: {' → '.join(cycle)}."
        fix = "Remove one of the dependencies; otherwise none of them can be loaded first."
        yield Diagnostic("Cyclic model dependencies", detail, fix, plan.where("models", cycle[0], "depends_on"))
