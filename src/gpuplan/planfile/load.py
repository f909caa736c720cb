"""From the path of a plan file to a `PlanFile`, or to everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from gpuplan.planfile.variables import VariableSources, substitute_variables
from gpuplan.planfile.yamlfile import Document, Where, by_place, dotted, read_document
from gpuplan.planfile.yamlsyntax import resolve
from gpuplan.types.diagnostic import Diagnostic, Problem

if TYPE_CHECKING:
    from gpuplan.planfile.schema import ContainerSection, ModelSection, PlanFile

SECTIONS = ("variables", "gpus", "containers", "models")
STAND_INS: Mapping[str, object] = {"version": 1, "name": "faulty"}
"""For what no other part refers to."""


def valid_data(data: object, faulty: Collection[Where]) -> dict[str, object]:
    """The document without the parts that are at fault: entries of a section, or whole sections."""
    whole = {path[0] for path in faulty if len(path) == 1 or (path and path[0] not in SECTIONS)}
    entries = {path[:2] for path in faulty if len(path) > 1}
    stated = data if isinstance(data, dict) else {}
    result: dict[str, object] = {key: value for key, value in stated.items() if key not in whole}
    for key, value in result.items():
        if key in SECTIONS and isinstance(value, dict):
            result[key] = {name: inside for name, inside in value.items() if (key, name) not in entries}
    return {**STAND_INS, **result}


def without_faulty(plan: PlanFile, faulty: Collection[Where]) -> PlanFile:
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


def _needs_gpu_of(container: ContainerSection, gone: Collection[tuple[str, str]]) -> bool:
    """An `each` may mean any GPU, so it needs all of them."""
    some_gpu = any(section == "gpus" for section, _ in gone)
    named = {("gpus", reference.partition("/")[0].partition("[")[0]) for reference in container.gpus}
    return (container.each is not None and some_gpu) or bool(named & {*gone}) or bool(named and ("gpus", "") in gone)


def _named_by(model: ModelSection) -> Iterator[tuple[str, str]]:
    yield ("containers", "")
    yield ("models", "")
    yield from (("containers", name) for name in (*model.containers, *model.overrides))
    yield from (("models", name) for name in model.depends_on)


if TYPE_CHECKING:
    from gpuplan.planfile.schema import PlanFile

_NOTHING: Mapping[str, str] = {}


def load_plan(
    path: str,
    *,
    variables: Mapping[str, str] = _NOTHING,
    variable_files: Sequence[str] = (),
    environ: Mapping[str, str],
) -> PlanFile:
    """Read, fill in, validate and check a plan file, without asking any node.

    `variables` are those of --var; they win over `variable_files`, those over GPUPLAN_VAR_NAME in `environ`, and
    those over the defaults.

    Raises:
        Problem: with every fault that could be found; exit code 1.
    """
    document = read_document(path)
    if not isinstance(document.data, dict):
        detail = "A plan file is a mapping that begins with 'version: 1' and 'name: NAME'."
        raise Problem(Diagnostic("The file is not a plan file", detail, where=document.at(())))
    filled = substitute_variables(document, VariableSources(variables, variable_files, environ))
    empty = dict(_empty(document))
    found = [*filled.faults, *empty.values()]
    plan, faulty = _validated(document, found, filled.broken | empty.keys())
    if plan is not None:
        from gpuplan.planfile.checks import check_plan

        reported = {document.keys[path] for path in filled.broken if path in document.keys}
        sound = without_faulty(plan, faulty | empty.keys())
        found.extend(fault for fault in check_plan(sound) if fault.where not in reported)
    if plan is None or found:
        raise Problem(sorted(found, key=by_place))
    return plan


def _validated(
    document: Document, found: list[Diagnostic], reported: Set[Where]
) -> tuple[PlanFile | None, frozenset[Where]]:
    """The plan file, or what of it is sound, and the places that are at fault.

    Faults are added to `found`, except at places that were reported already.
    """
    from pydantic import ValidationError

    from gpuplan.planfile.schema import PlanFile
    from gpuplan.planfile.schema_errors import schema_errors, to_diagnostics

    _as_written(document, [path for path in document.texts if _takes_any_scalar(path)])
    try:
        PlanFile.model_validate(document.data)
    except ValidationError as error:
        _as_written(
            document, [fault.path for fault in schema_errors(error, document.data) if fault.kind == "string_type"]
        )
    faulty: frozenset[Where] = frozenset()
    try:
        plan = PlanFile.model_validate(document.data)
    except ValidationError as error:
        all_of_them = schema_errors(error, document.data)
        found.extend(to_diagnostics([fault for fault in all_of_them if fault.path not in reported], document, PlanFile))
        faulty = frozenset(fault.path for fault in all_of_them)
        try:
            plan = PlanFile.model_validate(valid_data(document.data, faulty))
        except ValidationError:
            return None, faulty
    plan._path = document.file
    plan._positions = document.keys
    return plan, faulty


def _takes_any_scalar(path: Where) -> bool:
    """Places whose schema takes numbers and booleans as well as text, though they end up as text on the node."""
    match path:
        case ("containers", _, "env", _) | ("containers", _, "triton", "flags", _, *_) | ("variables", _, "default"):
            return True
        case _:
            return False


def _as_written(document: Document, paths: Sequence[Where]) -> None:
    """Put the text that was written where a number or boolean was read: 24.10 stays 24.10."""
    for path in paths:
        if text := document.texts.get(path):
            document.replace(path, text)


def _empty(document: Document) -> Iterator[tuple[Where, Diagnostic]]:
    """Keys without a value: `triton:` alone would be taken for not stated. Whole sections may be empty."""
    for path, text in list(document.texts.items()):
        if resolve(text) is not None or _takes_json(path):
            continue
        if len(path) == 1 and path[0] not in ("version", "name"):
            document.replace(path, {})
            continue
        fix = "Give it a value ({} for an empty section) or remove it."
        yield path, Diagnostic("Missing value", f"{dotted(path)} has no value.", fix, document.at(path))


def _takes_json(path: Where) -> bool:
    match path:
        case ("models", _, "config" | "overrides", *_):
            return True
        case _:
            return False
