"""What of a faulty plan file is sound: the parts whose names can be checked although others are at fault."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from gpuplan.planfile.document import Where

if TYPE_CHECKING:
    from gpuplan.planfile.schema import Container, Model, PlanFile

SECTIONS = ("variables", "gpus", "containers", "models")
STAND_INS: Mapping[str, object] = {"version": 1, "name": "faulty"}
"""For what no other part refers to."""


def sound_data(data: object, faulty: Collection[Where]) -> dict[str, object]:
    """The document without the parts that are at fault: entries of a section, or whole sections."""
    whole = {path[0] for path in faulty if len(path) == 1 or (path and path[0] not in SECTIONS)}
    entries = {path[:2] for path in faulty if len(path) > 1}
    stated = data if isinstance(data, dict) else {}
    result: dict[str, object] = {key: value for key, value in stated.items() if key not in whole}
    for key, value in result.items():
        if key in SECTIONS and isinstance(value, dict):
            result[key] = {name: inside for name, inside in value.items() if (key, name) not in entries}
    return {**STAND_INS, **result}


def without(plan: PlanFile, faulty: Collection[Where]) -> PlanFile:
    """The plan file without the parts at fault and without all that names one of them: of those nothing can be said."""
    gone = {(str(path[0]), str(path[1]) if len(path) > 1 else "") for path in faulty if path}
    gpus = {name: gpu for name, gpu in plan.gpus.items() if ("gpus", name) not in gone}
    containers = {
        name: container
        for name, container in plan.containers.items()
        if ("containers", name) not in gone and not _needs_gpu_of(container, gone)
    }
    gone |= {("containers", name) for name in plan.containers.keys() - containers.keys()}
    models = {name: model for name, model in plan.models.items() if ("models", name) not in gone}
    while lost := [name for name, model in models.items() if gone & set(_named_by(model))]:
        gone |= {("models", name) for name in lost}
        models = {name: model for name, model in models.items() if name not in lost}
    return plan.model_copy(update={"gpus": gpus, "containers": containers, "models": models})


def _needs_gpu_of(container: Container, gone: Collection[tuple[str, str]]) -> bool:
    """An `each` may mean any GPU, so it needs all of them."""
    some_gpu = any(section == "gpus" for section, _ in gone)
    named = {("gpus", reference.partition("/")[0].partition("[")[0]) for reference in container.gpus}
    return (container.each is not None and some_gpu) or bool(named & {*gone}) or bool(named and ("gpus", "") in gone)


def _named_by(model: Model) -> Iterator[tuple[str, str]]:
    yield ("containers", "")
    yield ("models", "")
    yield from (("containers", name) for name in (*model.containers, *model.overrides))
    yield from (("models", name) for name in model.depends_on)
