"""Checks of an ensemble against the models of its steps: what it maps is there, and of the same type and shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from gpuplan.triton.lint.check import Check, Effect, Family, Findings
from gpuplan.triton.lint.repository import Repository, Subject, listed, number, objects, plain, text
from gpuplan.triton.lint.tensors import completed
from gpuplan.types.diagnostic import Location
from gpuplan.types.value import Json, JsonObject

PART = Check("ensemble-part", "An ensemble names a model that is not served beside it", Effect.REFUSED)
MAP = Check("ensemble-map", "A step maps a tensor that its model does not have", Effect.REFUSED)
UNMAPPED = Check("ensemble-unmapped", "An input of a step gets nothing", Effect.REFUSED)
TYPE = Check("ensemble-type", "Two data types of one tensor", Effect.REFUSED)
SHAPE = Check("ensemble-shape", "Two shapes of one tensor", Effect.REFUSED)
BATCH = Check("ensemble-batch-size", "An ensemble batches more than its parts", Effect.REFUSED)
VERSION = Check("ensemble-version", "A step wants a version that is not served", Effect.REFUSED)
CYCLE = Check("ensemble-cycle", "Ensembles are composed of one another", Effect.REFUSED)
FIELD = "ensemble_scheduling"
_LATEST = -1


def _parts(subject: Subject, repository: Repository) -> Findings:
    server = repository.server
    for index, step in enumerate(listed(objects(subject.config, FIELD), "step")):
        name = text(step.get("model_name"))
        where = subject.where(FIELD, "step", index, "model_name")
        part = repository.models.get(name)
        if part is None:
            known = name in repository.unread or not repository.whole or step.get("model_namespace")
            if name and not known:
                yield PART.at(
                    where,
                    f"{subject.name} is composed of {name}, which {server.name} does not serve.",
                    f"Serve {name} on {server.name} too, or correct the step.",
                )
            continue
        version = number(step.get("model_version"))
        if version != _LATEST and part.versions and version not in part.wanted:
            there = ", ".join(map(str, part.wanted)) or "none"
            stated = (
                f"wants version {version}" if "model_version" in step else "states no model_version, which means 0,"
            )
            yield VERSION.at(
                subject.where(FIELD, "step", index, "model_version"),
                f"Step {index} of {subject.name} {stated} of {name}, and served is {there}.",
                "Write model_version: -1 for the latest, or let that version be served (versions:).",
            )


@dataclass(frozen=True)
class _Seen:
    """What a tensor was found to be, and of which model."""

    model: str
    type: str
    dims: tuple[Json, ...]
    full: tuple[Json, ...]
    """With the batch dimension, where the model batches."""


def _mapped(subject: Subject, repository: Repository) -> Findings:
    if not subject.ensemble:
        return
    seen: dict[str, _Seen] = {}
    for kind in ("input", "output"):
        for tensor in listed(subject.config, kind):
            seen.setdefault(text(tensor.get("name")), _seen(subject, tensor, reshaped=True))
    for index, step in enumerate(listed(objects(subject.config, FIELD), "step")):
        part = repository.models.get(text(step.get("model_name")))
        if part is None or part is subject:
            continue
        yield from _batch(subject, part, index)
        states_both = listed(part.config, "input") and listed(part.config, "output")
        if states_both or not completed(part, repository):
            for kind in ("input", "output"):
                yield from _ends(subject, part, index, objects(step, f"{kind}_map"), kind)
        for kind in ("input", "output"):
            yield from _agree(subject, part, index, kind, seen)


def _batch(subject: Subject, part: Subject, index: int) -> Findings:
    mine, theirs = (number(each.config.get("max_batch_size")) for each in (subject, part))
    if 0 < theirs < mine:
        yield BATCH.at(
            subject.where(FIELD, "step", index, "model_name"),
            f"{subject.name} takes batches of {mine}, and {part.name} of {theirs}.",
            f"Lower max_batch_size of {subject.name}, or raise that of {part.name}.",
        )


def _ends(subject: Subject, part: Subject, index: int, mapped: JsonObject, kind: str) -> Findings:
    names = {text(tensor.get("name")): tensor for tensor in listed(part.config, kind)}
    for key in mapped:
        if key not in names:
            there = ", ".join(sorted(names)) or "none"
            yield MAP.at(
                subject.where(FIELD, "step", index, f"{kind}_map", key),
                f"Step {index} of {subject.name} maps the {kind} {key} of {part.name}, which has {there}.",
                "The key is the tensor of the model, the value that of the ensemble.",
            )
    if kind == "input":
        for name, tensor in names.items():
            if name not in mapped and tensor.get("optional") is not True:
                where = subject.where(FIELD, "step", index, "input_map")
                detail = f"Step {index} of {subject.name} maps nothing to the input {name} of {part.name}."
                yield UNMAPPED.at(where, detail, "Map a tensor of the ensemble to it.")


def _agree(subject: Subject, part: Subject, index: int, kind: str, seen: dict[str, _Seen]) -> Findings:
    step = listed(objects(subject.config, FIELD), "step")[index]
    names = {text(tensor.get("name")): tensor for tensor in listed(part.config, kind)}
    for key, value in objects(step, f"{kind}_map").items():
        if key not in names:
            continue
        tensor = text(value)
        found = _seen(part, names[key])
        known = seen.setdefault(tensor, found)
        where = subject.where(FIELD, "step", index, f"{kind}_map", key)
        yield from _clash(subject, tensor, known, found, where)


def _clash(subject: Subject, tensor: str, known: _Seen, found: _Seen, where: Location) -> Findings:
    if known.type and found.type and known.type != found.type:
        detail = f"{tensor} of {subject.name} is {known.type} of {known.model}, and {found.type} of {found.model}."
        yield TYPE.at(where, detail, "Let both have one data type; Triton converts nothing between steps.")
    elif known.dims and found.dims and not (_fit(known.dims, found.dims) or _fit(known.full, found.full)):
        yield SHAPE.at(
            where,
            f"{tensor} of {subject.name} is {_shown(known.full)} of {known.model}, and {_shown(found.full)} of "
            f"{found.model}.",
            "Let both have one shape; -1 in the first place is the batch.",
        )


def _seen(subject: Subject, tensor: JsonObject, reshaped: bool = False) -> _Seen:
    """Of an ensemble's own tensors Triton takes the shape that they are reshaped to."""
    stated = objects(tensor, "reshape") if reshaped and "reshape" in tensor else {}
    dims = plain(stated, "shape") if stated else plain(tensor, "dims")
    batched = number(subject.config.get("max_batch_size")) > 0
    return _Seen(subject.name, text(tensor.get("data_type")), dims, (-1, *dims) if batched else dims)


def _fit(one: tuple[Json, ...], other: tuple[Json, ...]) -> bool:
    return len(one) == len(other) and all(-1 in (a, b) or a == b for a, b in zip(one, other, strict=True))


def _shown(dims: tuple[Json, ...]) -> str:
    return f"[{', '.join(map(str, dims))}]"


def _cycles(repository: Repository) -> Findings:
    graph = {name: tuple(_inner(subject, repository)) for name, subject in repository.models.items()}
    for circle in _circles(graph):
        subject = repository.models[circle[0]]
        yield CYCLE.at(
            subject.where(FIELD),
            f"None of them can be loaded first: {' → '.join(circle)}.",
            "Take one of them out of the other's steps.",
        )


def _inner(subject: Subject, repository: Repository) -> Iterator[str]:
    yield from (part for part in subject.parts() if part in repository.models)


def _circles(graph: Mapping[str, tuple[str, ...]]) -> Iterator[list[str]]:
    """Each circle once; what is in one is left out of the search for the next."""
    rest = dict(graph)
    while True:
        try:
            TopologicalSorter(rest).prepare()
        except CycleError as fault:
            circle: list[str] = list(reversed(fault.args[1]))
            yield circle
            rest = {name: parts for name, parts in rest.items() if name not in circle}
            rest = {name: tuple(part for part in parts if part not in circle) for name, parts in rest.items()}
        else:
            return


FAMILY = Family((PART, MAP, UNMAPPED, TYPE, SHAPE, BATCH, VERSION, CYCLE), (_parts, _mapped), (_cycles,))
