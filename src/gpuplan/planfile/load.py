"""From the plan file's path to a `PlanFile`, or to everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from gpuplan.planfile.document import Document, Where, by_place, dotted
from gpuplan.planfile.sound import sound_data, without
from gpuplan.planfile.variables import Sources, fill_in
from gpuplan.planfile.yamlfile import read_document
from gpuplan.planfile.yamlsyntax import resolve
from gpuplan.types.diagnostic import Diagnostic, Problem

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
    filled = fill_in(document, Sources(variables, variable_files, environ))
    empty = dict(_empty(document))
    found = [*filled.faults, *empty.values()]
    plan, faulty = _validated(document, found, filled.broken | empty.keys())
    if plan is not None:
        from gpuplan.planfile.checks import check_plan

        reported = {document.keys[path] for path in filled.broken if path in document.keys}
        sound = without(plan, faulty | empty.keys())
        found.extend(fault for fault in check_plan(sound) if fault.where not in reported)
    if plan is None or found:
        raise Problem(sorted(found, key=by_place))
    return plan


def _validated(
    document: Document, found: list[Diagnostic], told: Set[Where]
) -> tuple[PlanFile | None, frozenset[Where]]:
    """The plan file, or what of it is sound, and the places that are at fault.

    Faults are added to `found`, but for those at places that were told of already.
    """
    from pydantic import ValidationError

    from gpuplan.planfile.explain import explain, faults
    from gpuplan.planfile.schema import PlanFile

    _as_written(document, [path for path in document.texts if _takes_any_scalar(path)])
    try:
        PlanFile.model_validate(document.data)
    except ValidationError as error:
        _as_written(document, [fault.path for fault in faults(error, document.data) if fault.kind == "string_type"])
    faulty: frozenset[Where] = frozenset()
    try:
        plan = PlanFile.model_validate(document.data)
    except ValidationError as error:
        all_of_them = faults(error, document.data)
        found.extend(explain([fault for fault in all_of_them if fault.path not in told], document, PlanFile))
        faulty = frozenset(fault.path for fault in all_of_them)
        try:
            plan = PlanFile.model_validate(sound_data(document.data, faulty))
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
        yield path, Diagnostic("A key has no value", f"{dotted(path)} states nothing.", fix, document.at(path))


def _takes_json(path: Where) -> bool:
    match path:
        case ("models", _, "config" | "overrides", *_):
            return True
        case _:
            return False
