"""Checks of an ensemble by itself: its steps, and the tensors that flow between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from gpuplan.triton.lint.check import (
    Check,
    CheckGroup,
    Effect,
    Findings,
    LintedModel,
    LintedRepository,
    listed,
    number,
    objects,
    plain,
    text,
)
from gpuplan.triton.lint.tensors import completed
from gpuplan.types.diagnostic import Location, Severity
from gpuplan.types.value import Json, JsonObject

# The tensors of an ensemble: which step writes each, which read it, and which are never ready.

At = tuple[int, str]
"""Number of a step, and the key of its map."""


@dataclass
class Flow:
    """What becomes of the tensors of one ensemble."""

    writers: dict[str, At] = field(default_factory=dict)
    readers: dict[str, At] = field(default_factory=dict)
    """The first step that reads a tensor."""
    twice: dict[str, tuple[At, int, str]] = field(default_factory=dict)
    """Tensor → its first writer, and the second one's step and key."""
    needs: dict[str, set[str]] = field(default_factory=dict)
    """Tensor → those that the step which writes it reads."""
    ready: set[str] = field(default_factory=set)
    """Tensors that come to be once the inputs are there."""
    stuck: list[int] = field(default_factory=list)
    """Steps that wait for what only their own output could bring."""

    def missing_for(self, tensor: str) -> list[str]:
        """The tensors for want of which this one is never ready."""
        return sorted(self.needs.get(tensor, set()) - self.ready)


def flow_of(config: JsonObject) -> Flow:
    """The flow of an ensemble's config, as Triton sees it (ValidateEnsembleSchedulingConfig)."""
    flow = Flow()
    steps = listed(objects(config, "ensemble_scheduling"), "step")
    for index, step in enumerate(steps):
        inputs = {key: text(tensor) for key, tensor in objects(step, "input_map").items()}
        outputs = {key: text(tensor) for key, tensor in objects(step, "output_map").items()}
        for key, tensor in inputs.items():
            flow.readers.setdefault(tensor, (index, key))
        for key, tensor in outputs.items():
            if tensor in flow.writers:
                flow.twice[tensor] = (flow.writers[tensor], index, key)
            else:
                flow.writers[tensor] = (index, key)
            flow.needs.setdefault(tensor, set()).update(inputs.values())
    flow.ready = {text(tensor.get("name")) for tensor in listed(config, "input")}
    while more := {tensor for tensor, needs in flow.needs.items() if tensor not in flow.ready and needs <= flow.ready}:
        flow.ready |= more
    flow.stuck = [index for index in range(len(steps)) if _waits_for_itself(flow, index)]
    return flow


def _waits_for_itself(flow: Flow, index: int) -> bool:
    written = {tensor for tensor, (step, _) in flow.writers.items() if step == index}
    behind, waiting = set[str](), [need for tensor in written for need in flow.needs[tensor]]
    while waiting:
        tensor = waiting.pop()
        if tensor in written:
            return True
        if tensor not in behind:
            behind.add(tensor)
            waiting.extend(flow.needs.get(tensor, ()))
    return False


PLATFORM = Check("ensemble-platform", "An ensemble does not state platform: ensemble", Effect.REFUSED)
GROUPS = Check("ensemble-instance-group", "An ensemble cannot have instance groups", Effect.REFUSED)
OPTIMIZATION = Check("ensemble-optimization", "An ensemble cannot be optimized", Effect.REFUSED)
WARMUP = Check("ensemble-warmup", "An ensemble cannot be warmed up", Effect.REFUSED)
STEP = Check("ensemble-step", "A step of an ensemble is not complete", Effect.REFUSED)
PRODUCER = Check("ensemble-producer", "A tensor of an ensemble has two producers", Effect.REFUSED)
OUTPUT = Check("ensemble-output", "An output of an ensemble is never written", Effect.REFUSED)
INPUT = Check("ensemble-input", "An input of an ensemble is never read", Effect.REFUSED)
TENSOR = Check("ensemble-tensor", "A tensor of an ensemble is not connected", Effect.REFUSED)
UNUSED = Check("ensemble-output-unused", "An output of a step is not used", Effect.IGNORED, Severity.WARNING)
LOOP = Check("ensemble-loop", "The steps of an ensemble form a cycle", Effect.REFUSED)

FIELD = "ensemble_scheduling"
_ALONE = (("instance_group", GROUPS), ("optimization", OPTIMIZATION), ("model_warmup", WARMUP))


def _settings(model: LintedModel, _: LintedRepository) -> Findings:
    if not model.ensemble:
        return
    if FIELD not in model.config:
        where = model.where("platform")
        yield STEP.at(where, f"{model.name} is an ensemble without ensemble_scheduling.", "State its steps.")
    elif model.config.get("platform") != "ensemble":
        detail = f"{model.name} has ensemble_scheduling, and its platform is {model.config.get('platform') or 'none'}."
        yield PLATFORM.at(model.where(FIELD), detail, 'Write platform: "ensemble".')
    if model.config.get("backend"):
        detail = f"{model.name} is an ensemble, and states the backend {model.config['backend']}."
        yield PLATFORM.at(model.where("backend"), detail, "Remove backend.")
    for name, check in _ALONE:
        if name in model.config:
            detail = f"{model.name} is an ensemble, and states {name}; only the models of its steps may."
            yield check.at(model.where(name), detail, f"State {name} in those models.")


def _steps(model: LintedModel, _: LintedRepository) -> Findings:
    scheduling = objects(model.config, FIELD)
    steps = listed(scheduling, "step")
    if FIELD in model.config and not steps:
        yield STEP.at(model.where(FIELD), f"{model.name} is an ensemble without a step.", "State its steps.")
    for index, step in enumerate(steps):
        for name in ("model_name", "input_map", "output_map"):
            if not step.get(name):
                where = model.where(FIELD, "step", index)
                yield STEP.at(where, f"Step {index} of {model.name} states no {name}.", "Each step needs all three.")


def _flow(model: LintedModel, _: LintedRepository) -> Findings:
    steps = listed(objects(model.config, FIELD), "step")
    if not steps or not all(step.get("input_map") and step.get("output_map") for step in steps):
        return
    flow = flow_of(model.config)
    for tensor, (_first, index, key) in flow.twice.items():
        where = model.where(FIELD, "step", index, "output_map", key)
        detail = f"{tensor} of {model.name} is written by two steps; a tensor has one producer."
        yield PRODUCER.at(where, detail, "Give the second one its own name.")
    yield from _ends(model, flow)
    yield from _between(model, flow)


def _ends(model: LintedModel, flow: Flow) -> Findings:
    for index, tensor in enumerate(listed(model.config, "input")):
        if (name := text(tensor.get("name"))) and name not in flow.readers and name not in flow.writers:
            detail = f"No step of {model.name} reads its input {name}."
            yield INPUT.at(model.where("input", index), detail, "Map it to a step, or remove it.")
    for index, tensor in enumerate(listed(model.config, "output")):
        name = text(tensor.get("name"))
        if not name or name in flow.ready:
            continue
        why = f": it waits for {', '.join(missing)}" if (missing := flow.missing_for(name)) else ""
        detail = f"The output {name} of {model.name} is never written{why}."
        yield OUTPUT.at(model.where("output", index), detail, "Map it in the output_map of a step.")


def _between(model: LintedModel, flow: Flow) -> Findings:
    outputs = {text(tensor.get("name")) for tensor in listed(model.config, "output")}
    inputs = {text(tensor.get("name")) for tensor in listed(model.config, "input")}
    for tensor, (index, key) in flow.readers.items():
        if tensor not in flow.writers and tensor not in inputs:
            where = model.where(FIELD, "step", index, "input_map", key)
            detail = f"Step {index} of {model.name} reads {tensor}, which no step writes and which is no input."
            yield TENSOR.at(where, detail, "Map it from an output of another step, or from an input.")
    for tensor, (index, key) in flow.writers.items():
        where = model.where(FIELD, "step", index, "output_map", key)
        if tensor not in flow.readers and tensor not in outputs:
            detail = f"Step {index} of {model.name} writes {tensor}, which no step reads and which is no output."
            yield TENSOR.at(where, detail, "Remove it from the output_map.")
    for index in flow.stuck:
        detail = f"Step {index} of {model.name} depends on its own output."
        yield LOOP.at(
            model.where(FIELD, "step", index), detail, "Break the cycle: a step can read only what earlier steps write."
        )


def _unused(model: LintedModel, repository: LintedRepository) -> Findings:
    for index, step in enumerate(listed(objects(model.config, FIELD), "step")):
        part, mapped = repository.models.get(text(step.get("model_name"))), objects(step, "output_map")
        outputs = [text(tensor.get("name")) for tensor in listed(part.config, "output")] if part else []
        for name in outputs if mapped and set(mapped) <= set(outputs) else ():
            if name not in mapped:
                where = model.where(FIELD, "step", index, "output_map")
                detail = f"Step {index} of {model.name} leaves the output {name} of {step['model_name']} unused."
                yield UNUSED.at(where, detail, f"Map it, or let the model not compute it: {name}.")


# Checks of an ensemble against the models of its steps: what it maps is there, and of the same type and shape.

PART = Check("ensemble-part", "An ensemble uses a model that the server does not serve", Effect.REFUSED)
MAP = Check("ensemble-map", "A step maps a tensor that its model does not have", Effect.REFUSED)
UNMAPPED = Check("ensemble-unmapped", "An input of a step is not mapped", Effect.REFUSED)
TYPE = Check("ensemble-type", "A tensor has two data types", Effect.REFUSED)
SHAPE = Check("ensemble-shape", "A tensor has two shapes", Effect.REFUSED)
BATCH = Check("ensemble-batch-size", "An ensemble has a larger batch size than its models", Effect.REFUSED)
VERSION = Check("ensemble-version", "A step uses a version that is not served", Effect.REFUSED)
CYCLE = Check("ensemble-cycle", "Ensembles contain each other", Effect.REFUSED)
FIELD_graph = "ensemble_scheduling"
_LATEST = -1


def _parts(model: LintedModel, repository: LintedRepository) -> Findings:
    server = repository.server
    for index, step in enumerate(listed(objects(model.config, FIELD_graph), "step")):
        name = text(step.get("model_name"))
        where = model.where(FIELD_graph, "step", index, "model_name")
        part = repository.models.get(name)
        if part is None:
            known = name in repository.unread or not repository.whole or step.get("model_namespace")
            if name and not known:
                yield PART.at(
                    where,
                    f"{model.name} is composed of {name}, which {server.name} does not serve.",
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
                model.where(FIELD_graph, "step", index, "model_version"),
                f"Step {index} of {model.name} {stated} of {name}, and served is {there}.",
                "Write model_version: -1 for the latest, or serve that version (versions:).",
            )


@dataclass(frozen=True)
class _Seen:
    """What a tensor was found to be, and of which model."""

    model: str
    type: str
    dims: tuple[Json, ...]
    full: tuple[Json, ...]
    """With the batch dimension, where the model batches."""


def _mapped(model: LintedModel, repository: LintedRepository) -> Findings:
    if not model.ensemble:
        return
    seen: dict[str, _Seen] = {}
    for kind in ("input", "output"):
        for tensor in listed(model.config, kind):
            seen.setdefault(text(tensor.get("name")), _seen(model, tensor, reshaped=True))
    for index, step in enumerate(listed(objects(model.config, FIELD_graph), "step")):
        part = repository.models.get(text(step.get("model_name")))
        if part is None or part is model:
            continue
        yield from _batch(model, part, index)
        states_both = listed(part.config, "input") and listed(part.config, "output")
        if states_both or not completed(part, repository):
            for kind in ("input", "output"):
                yield from _ends_graph(model, part, index, objects(step, f"{kind}_map"), kind)
        for kind in ("input", "output"):
            yield from _agree(model, part, index, kind, seen)


def _batch(model: LintedModel, part: LintedModel, index: int) -> Findings:
    mine, theirs = (number(each.config.get("max_batch_size")) for each in (model, part))
    if 0 < theirs < mine:
        yield BATCH.at(
            model.where(FIELD_graph, "step", index, "model_name"),
            f"{model.name} takes batches of {mine}, and {part.name} of {theirs}.",
            f"Lower max_batch_size of {model.name}, or raise that of {part.name}.",
        )


def _ends_graph(model: LintedModel, part: LintedModel, index: int, mapped: JsonObject, kind: str) -> Findings:
    names = {text(tensor.get("name")): tensor for tensor in listed(part.config, kind)}
    for key in mapped:
        if key not in names:
            there = ", ".join(sorted(names)) or "none"
            yield MAP.at(
                model.where(FIELD_graph, "step", index, f"{kind}_map", key),
                f"Step {index} of {model.name} maps the {kind} {key} of {part.name}, which has {there}.",
                "The key is the tensor of the model, the value that of the ensemble.",
            )
    if kind == "input":
        for name, tensor in names.items():
            if name not in mapped and tensor.get("optional") is not True:
                where = model.where(FIELD_graph, "step", index, "input_map")
                detail = f"Step {index} of {model.name} maps nothing to the input {name} of {part.name}."
                yield UNMAPPED.at(where, detail, "Map a tensor of the ensemble to it.")


def _agree(model: LintedModel, part: LintedModel, index: int, kind: str, seen: dict[str, _Seen]) -> Findings:
    step = listed(objects(model.config, FIELD_graph), "step")[index]
    names = {text(tensor.get("name")): tensor for tensor in listed(part.config, kind)}
    for key, value in objects(step, f"{kind}_map").items():
        if key not in names:
            continue
        tensor = text(value)
        found = _seen(part, names[key])
        known = seen.setdefault(tensor, found)
        where = model.where(FIELD_graph, "step", index, f"{kind}_map", key)
        yield from _clash(model, tensor, known, found, where)


def _clash(model: LintedModel, tensor: str, known: _Seen, found: _Seen, where: Location) -> Findings:
    if known.type and found.type and known.type != found.type:
        detail = f"{tensor} of {model.name} is {known.type} of {known.model}, and {found.type} of {found.model}."
        yield TYPE.at(where, detail, "Use one data type for both; Triton does not convert between steps.")
    elif known.dims and found.dims and not (_fit(known.dims, found.dims) or _fit(known.full, found.full)):
        yield SHAPE.at(
            where,
            f"{tensor} of {model.name} is {_shown(known.full)} of {known.model}, and {_shown(found.full)} of "
            f"{found.model}.",
            "Use one shape for both; a first dimension of -1 is the batch.",
        )


def _seen(model: LintedModel, tensor: JsonObject, reshaped: bool = False) -> _Seen:
    """Of an ensemble's own tensors Triton takes the shape that they are reshaped to."""
    stated = objects(tensor, "reshape") if reshaped and "reshape" in tensor else {}
    dims = plain(stated, "shape") if stated else plain(tensor, "dims")
    batched = number(model.config.get("max_batch_size")) > 0
    return _Seen(model.name, text(tensor.get("data_type")), dims, (-1, *dims) if batched else dims)


def _fit(one: tuple[Json, ...], other: tuple[Json, ...]) -> bool:
    return len(one) == len(other) and all(-1 in (a, b) or a == b for a, b in zip(one, other, strict=True))


def _shown(dims: tuple[Json, ...]) -> str:
    return f"[{', '.join(map(str, dims))}]"


def _cycles(repository: LintedRepository) -> Findings:
    graph = {name: tuple(_inner(model, repository)) for name, model in repository.models.items()}
    for circle in _circles(graph):
        model = repository.models[circle[0]]
        yield CYCLE.at(
            model.where(FIELD_graph),
            f"None of them can be loaded first: {' → '.join(circle)}.",
            "Remove one of them from the other's steps.",
        )


def _inner(model: LintedModel, repository: LintedRepository) -> Iterator[str]:
    yield from (part for part in model.parts() if part in repository.models)


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


CHECKS = CheckGroup(
    checks=(
        PLATFORM,
        GROUPS,
        OPTIMIZATION,
        WARMUP,
        STEP,
        PRODUCER,
        OUTPUT,
        INPUT,
        TENSOR,
        LOOP,
        UNUSED,
        PART,
        MAP,
        UNMAPPED,
        TYPE,
        SHAPE,
        BATCH,
        VERSION,
        CYCLE,
    ),
    model_checks=(
        _settings,
        _steps,
        _flow,
        _unused,
        _parts,
        _mapped,
    ),
    server_checks=(_cycles,),
)
