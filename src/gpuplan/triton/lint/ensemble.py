"""Checks of an ensemble by itself: its steps, and the tensors that flow between them."""

from __future__ import annotations

from gpuplan.triton.lint.check import Check, Effect, Family, Findings
from gpuplan.triton.lint.flow import Flow, flow_of
from gpuplan.triton.lint.repository import Repository, Subject, listed, objects, text
from gpuplan.types.diagnostic import Severity

PLATFORM = Check("ensemble-platform", "An ensemble does not say that it is one", Effect.REFUSED)
GROUPS = Check("ensemble-instance-group", "An ensemble has no instances", Effect.REFUSED)
OPTIMIZATION = Check("ensemble-optimization", "An ensemble cannot be optimized", Effect.REFUSED)
WARMUP = Check("ensemble-warmup", "An ensemble cannot be warmed up", Effect.REFUSED)
STEP = Check("ensemble-step", "A step of an ensemble is not complete", Effect.REFUSED)
PRODUCER = Check("ensemble-producer", "A tensor of an ensemble has two producers", Effect.REFUSED)
OUTPUT = Check("ensemble-output", "An output of an ensemble is never written", Effect.REFUSED)
INPUT = Check("ensemble-input", "An input of an ensemble is never read", Effect.REFUSED)
TENSOR = Check("ensemble-tensor", "A tensor of an ensemble leads nowhere", Effect.REFUSED)
UNUSED = Check("ensemble-output-unused", "An output of a step is not used", Effect.IGNORED, Severity.WARNING)
LOOP = Check("ensemble-loop", "Steps of an ensemble wait for one another", Effect.REFUSED)

FIELD = "ensemble_scheduling"
_ALONE = (("instance_group", GROUPS), ("optimization", OPTIMIZATION), ("model_warmup", WARMUP))


def _settings(subject: Subject, _: Repository) -> Findings:
    if not subject.ensemble:
        return
    if FIELD not in subject.config:
        where = subject.where("platform")
        yield STEP.at(where, f"{subject.name} is an ensemble without ensemble_scheduling.", "State its steps.")
    elif subject.config.get("platform") != "ensemble":
        detail = (
            f"{subject.name} has ensemble_scheduling, and its platform is {subject.config.get('platform') or 'none'}."
        )
        yield PLATFORM.at(subject.where(FIELD), detail, 'Write platform: "ensemble".')
    if subject.config.get("backend"):
        detail = f"{subject.name} is an ensemble, and states the backend {subject.config['backend']}."
        yield PLATFORM.at(subject.where("backend"), detail, "Take backend out.")
    for field, check in _ALONE:
        if field in subject.config:
            detail = f"{subject.name} is an ensemble, and states {field}; only the models of its steps may."
            yield check.at(subject.where(field), detail, f"State {field} in those models.")


def _steps(subject: Subject, _: Repository) -> Findings:
    scheduling = objects(subject.config, FIELD)
    steps = listed(scheduling, "step")
    if FIELD in subject.config and not steps:
        yield STEP.at(subject.where(FIELD), f"{subject.name} is an ensemble without a step.", "State its steps.")
    for index, step in enumerate(steps):
        for field in ("model_name", "input_map", "output_map"):
            if not step.get(field):
                where = subject.where(FIELD, "step", index)
                yield STEP.at(where, f"Step {index} of {subject.name} states no {field}.", "Every step has all three.")


def _flow(subject: Subject, _: Repository) -> Findings:
    steps = listed(objects(subject.config, FIELD), "step")
    if not steps or not all(step.get("input_map") and step.get("output_map") for step in steps):
        return
    flow = flow_of(subject.config)
    for tensor, (_first, index, key) in flow.twice.items():
        where = subject.where(FIELD, "step", index, "output_map", key)
        detail = f"{tensor} of {subject.name} is written by two steps; a tensor has one producer."
        yield PRODUCER.at(where, detail, "Give the second one a name of its own.")
    yield from _ends(subject, flow)
    yield from _between(subject, flow)


def _ends(subject: Subject, flow: Flow) -> Findings:
    for index, tensor in enumerate(listed(subject.config, "input")):
        if (name := text(tensor.get("name"))) and name not in flow.readers and name not in flow.writers:
            detail = f"No step of {subject.name} reads its input {name}."
            yield INPUT.at(subject.where("input", index), detail, "Map it into a step, or take it out.")
    for index, tensor in enumerate(listed(subject.config, "output")):
        name = text(tensor.get("name"))
        if not name or name in flow.ready:
            continue
        why = f": it waits for {', '.join(missing)}" if (missing := flow.missing_for(name)) else ""
        detail = f"The output {name} of {subject.name} is never written{why}."
        yield OUTPUT.at(subject.where("output", index), detail, "Let the output_map of a step give it.")


def _between(subject: Subject, flow: Flow) -> Findings:
    outputs = {text(tensor.get("name")) for tensor in listed(subject.config, "output")}
    inputs = {text(tensor.get("name")) for tensor in listed(subject.config, "input")}
    for tensor, (index, key) in flow.readers.items():
        if tensor not in flow.writers and tensor not in inputs:
            where = subject.where(FIELD, "step", index, "input_map", key)
            detail = f"Step {index} of {subject.name} reads {tensor}, which no step writes and which is no input."
            yield TENSOR.at(where, detail, "Map it from an output of another step, or from an input.")
    for tensor, (index, key) in flow.writers.items():
        where = subject.where(FIELD, "step", index, "output_map", key)
        if tensor not in flow.readers and tensor not in outputs:
            detail = f"Step {index} of {subject.name} writes {tensor}, which no step reads and which is no output."
            yield TENSOR.at(where, detail, "Take it out of the output_map.")
    for index in flow.stuck:
        detail = f"Step {index} of {subject.name} waits for what comes of its own output."
        yield LOOP.at(subject.where(FIELD, "step", index), detail, "Break the circle; a step reads what came before.")


def _unused(subject: Subject, repository: Repository) -> Findings:
    for index, step in enumerate(listed(objects(subject.config, FIELD), "step")):
        part, mapped = repository.models.get(text(step.get("model_name"))), objects(step, "output_map")
        outputs = [text(tensor.get("name")) for tensor in listed(part.config, "output")] if part else []
        for name in outputs if mapped and set(mapped) <= set(outputs) else ():
            if name not in mapped:
                where = subject.where(FIELD, "step", index, "output_map")
                detail = f"Step {index} of {subject.name} leaves the output {name} of {step['model_name']} unused."
                yield UNUSED.at(where, detail, f"Map it, or let the model not compute it: {name}.")


FAMILY = Family(
    (PLATFORM, GROUPS, OPTIMIZATION, WARMUP, STEP, PRODUCER, OUTPUT, INPUT, TENSOR, LOOP, UNUSED),
    (_settings, _steps, _flow, _unused),
)
