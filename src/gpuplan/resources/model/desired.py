"""What the plan file implies: the models that each Triton of a node should have loaded, and their smoke tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

from gpuplan.planfile.checks.references import path_problem
from gpuplan.planfile.expand import PlacedContainer, containers_on, models_on, slices_of
from gpuplan.planfile.schema import PlanFile
from gpuplan.planfile.sources import ModelSource, RemoteModel, remote_models_on, sources_on
from gpuplan.planfile.sources.read import models_with_smoke
from gpuplan.resources.kind import DesiredResources
from gpuplan.resources.model.smoke.request import build_request
from gpuplan.resources.model.smoke.spec import INSTALL_GRPC, SmokeSpec, has_grpc, read_limited, smoke_of
from gpuplan.resources.model.smoke.tensors import SmokeIssue, signature_of
from gpuplan.resources.model.spec import MemoryBudget, ModelSpec, SliceSize, instance_groups
from gpuplan.resources.typed import encode
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.inventory import Host
from gpuplan.types.resource import Desired
from gpuplan.types.value import JsonObject

if TYPE_CHECKING:
    from gpuplan.triton.lint import LintedModel

HTTP_THREADS = "http-thread-count"
"""The flag for the number of HTTP threads, eight by default."""


def desired_models(plan: PlanFile, host: Host) -> DesiredResources:
    """One resource for each model of each Triton; issues of their files are reported by the repository kind."""
    desired: list[Desired] = []
    issues: list[Diagnostic] = []
    for placed in containers_on(plan, host):
        if placed.container.triton is None:
            continue
        sources, _ = sources_on(plan, host, placed.name)
        needs = _model_needs(plan, host, placed.name, sources)
        issues.extend(_cycle(plan, needs))
        issues.extend(smoke_issues(plan, host, placed))
        models: Sequence[ModelSource | RemoteModel] = (*sources, *remote_models_on(plan, host, placed.name))
        desired.extend(_desired(plan, host, placed, model, needs[model.model]) for model in models)
    return desired, issues


def smoke_issues(plan: PlanFile, host: Host, placed: PlacedContainer) -> Iterator[Diagnostic]:
    """Everything in `smoke` sections that does not fit the models of one container, or the container."""
    for name, subject in models_with_smoke(plan, host, placed).items():
        spec = smoke_of(plan.models[name])
        if spec is not None:
            for issue in _smoke_issues(plan, placed, name, spec, subject):
                yield issue.diagnostic(plan.where("models", name, "smoke", *issue.path))


def _desired(
    plan: PlanFile, host: Host, placed: PlacedContainer, source: ModelSource | RemoteModel, parts: Sequence[str]
) -> Desired:
    container, model = placed.name, plan.models[source.model]
    external = isinstance(source, RemoteModel)
    spec = ModelSpec(
        container=container,
        model=source.model,
        content=source.content,
        versions=source.versions,
        load_timeout=model.load_timeout,
        repository=source.place if isinstance(source, RemoteModel) else "",
        overrides=source.overlay if isinstance(source, RemoteModel) else (),
        budget=_budget(plan, placed, source),
        max_parallel=_max_parallel(placed),
    )
    server = Address(host.name, "model", container)
    files = () if external else (Address(host.name, "repository", container).part(source.model),)
    smoke = smoke_of(model)
    return Desired(
        server.part(source.model),
        encode(spec),
        needs=(Address(host.name, "container", container), *files, *map(server.part, parts)),
        where=plan.where("models", source.model),
        proof=encode(smoke) if smoke else None,
    )


def _max_parallel(placed: PlacedContainer) -> int:
    """How many loads a server with few HTTP threads takes: each occupies one, and one must stay free for reads."""
    stated = str(placed.container.triton.flags.get(HTTP_THREADS, "")) if placed.container.triton else ""
    return max(1, int(stated) - 1) if stated.isdecimal() else 0


def _budget(plan: PlanFile, placed: PlacedContainer, source: ModelSource | RemoteModel) -> MemoryBudget | None:
    memory, triton = plan.models[source.model].memory, placed.container.triton
    if memory is None or triton is None:
        return None
    sizes = {name: size for name in placed.container.gpus if (size := _slice_size(plan, name)) is not None}
    return MemoryBudget(
        memory=memory,
        instance_groups=instance_groups(
            source.config if isinstance(source, ModelSource) else _overridden(source.overlay)
        ),
        backend=source.backend if isinstance(source, ModelSource) else "",
        devices=placed.container.gpus,
        slices=sizes,
        overcommit=triton.overcommit,
    )


def _overridden(overrides: Sequence[JsonObject]) -> JsonObject:
    """The instance groups that the last override states."""
    stated = [section["instance_group"] for section in overrides if section.get("instance_group") is not None]
    return {"instance_group": stated[-1]} if stated else {}


def _slice_size(plan: PlanFile, device: str) -> SliceSize | None:
    """The size of a slice, by which its memory is known before it exists; None for a whole GPU."""
    gpu, _, part = device.partition("/")
    name = gpu.partition("[")[0]
    slices = dict(slices_of(plan.gpus[name].mig)) if part and name in plan.gpus else {}
    stated = slices.get(part) or slices.get(part.rpartition("/")[0])
    if stated is None:
        return None
    return SliceSize(profile=stated.profile) if stated.profile is not None else SliceSize(memory=stated.memory or 0)


def _model_needs(
    plan: PlanFile, host: Host, container: str, sources: Sequence[ModelSource]
) -> Mapping[str, Sequence[str]]:
    """The models that each model is composed of or states that it calls."""
    parts = {source.model: source.parts for source in sources}
    return {
        name: tuple(dict.fromkeys((*parts.get(name, ()), *model.depends_on)))
        for name, model in models_on(plan, host, container)
    }


def _cycle(plan: PlanFile, needs: Mapping[str, Sequence[str]]) -> Iterator[Diagnostic]:
    """A cycle through the steps of an ensemble, which the plan file alone does not show."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        yield Diagnostic(
            "Models depend on each other in a cycle",
            f"None of them can be loaded first: {' → '.join(cycle)}.",
            "Remove one of them from depends_on, or from the ensemble.",
            plan.where("models", cycle[0]),
        )


def _smoke_issues(
    plan: PlanFile, placed: PlacedContainer, name: str, spec: SmokeSpec, subject: LintedModel
) -> Iterator[SmokeIssue]:
    signature = signature_of(subject.config)
    if signature.inputs:  # else the server completes the config, and only it knows the inputs
        request = build_request(name, spec, signature, partial(_read_file, plan))
        if isinstance(request, tuple):
            yield from request
    if spec.version is not None and subject.wanted and spec.version not in subject.wanted:
        versions = ", ".join(map(str, subject.wanted))
        detail = f"{name} does not serve version {spec.version}; it serves {versions}."
        yield SmokeIssue(("version",), detail, "Use one of these versions.")
    if (spec.protocol == "grpc" or (signature.decoupled and not spec.protocol)) and not has_grpc():
        why = "protocol is grpc" if spec.protocol else "the model is decoupled"
        detail = f"The smoke test of {name} uses gRPC ({why}), but its library is not installed on this machine."
        yield SmokeIssue(("protocol",), detail, INSTALL_GRPC)
    if spec.shared_memory == "cuda" and not placed.container.gpus:
        detail = f"CUDA shared memory needs a GPU, and container {placed.path[1]} has none."
        yield SmokeIssue(("shared_memory",), detail, "Give the container a GPU, or set shared_memory: system.")


def _read_file(plan: PlanFile, path: str) -> bytes:
    """A file next to the plan file; raises Problem if it cannot be read or is too large."""
    if wrong := path_problem(plan, path, "file"):
        raise Problem(Diagnostic("Cannot read a file of the smoke section", *wrong))
    try:
        with (Path(plan.path).parent / path).open("rb") as file:
            return read_limited(file, path)
    except OSError as error:
        detail = f"{path}: {error.strerror or error}."
        raise Problem(Diagnostic("Cannot read a file of the smoke section", detail)) from None
