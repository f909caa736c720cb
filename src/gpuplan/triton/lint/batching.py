"""Checks of batching: sizes, priorities and what happens to requests in the queue."""

from __future__ import annotations

from collections.abc import Iterator

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
from gpuplan.types.diagnostic import Severity
from gpuplan.types.value import JsonObject

SIZE = Check("batch-size", "Invalid batch size", Effect.REFUSED)
PREFERRED = Check("preferred-batch-size", "Invalid preferred batch size", Effect.REFUSED)
LEVELS = Check("priority-levels", "Invalid priority levels", Effect.REFUSED)
UNUSED = Check("priority-unused", "Priorities without priority_levels", Effect.IGNORED, Severity.WARNING)
ORDER = Check("preserve-ordering", "Order cannot be preserved", Effect.REFUSED)
OFF = Check("batching-off", "Dynamic batching without max_batch_size", Effect.IGNORED, Severity.WARNING)
FIELD = "dynamic_batching"


def _size(model: LintedModel, _: LintedRepository) -> Findings:
    size = number(model.config.get("max_batch_size"))
    if size < 0:
        where = model.where("max_batch_size")
        detail = f"max_batch_size of {model.name} is {size}."
        yield SIZE.at(where, detail, "Write 0 for a model that does not batch, or the largest batch that it accepts.")


def _preferred(model: LintedModel, _: LintedRepository) -> Findings:
    largest = number(model.config.get("max_batch_size"))
    sequences = objects(model.config, "sequence_batching")
    stated = (
        ((FIELD,), objects(model.config, FIELD)),
        (("sequence_batching", "oldest"), objects(sequences, "oldest")),
    )
    for path, batching in stated:
        for index, size in enumerate(plain(batching, "preferred_batch_size")):
            if 0 < number(size) <= largest:
                continue
            yield PREFERRED.at(
                model.where(*path, "preferred_batch_size", index),
                f"{model.name} prefers batches of {size}, and its batches have 1 to {largest} requests."
                if largest > 0
                else f"{model.name} prefers batches of {size}, and has no max_batch_size.",
                "Keep preferred sizes between 1 and max_batch_size.",
            )


def _off(model: LintedModel, _: LintedRepository) -> Findings:
    if FIELD in model.config and not number(model.config.get("max_batch_size")):
        yield OFF.at(
            model.where(FIELD),
            f"{model.name} has dynamic_batching and no max_batch_size; each request is a batch of its own.",
            "State max_batch_size, or remove dynamic_batching.",
        )


def _priorities(model: LintedModel, _: LintedRepository) -> Findings:
    batching = objects(model.config, FIELD)
    levels = number(batching.get("priority_levels"))
    default = number(batching.get("default_priority_level"))
    policies = objects(batching, "priority_queue_policy")
    if not levels:
        for name in ("default_priority_level", "priority_queue_policy"):
            if batching.get(name):
                detail = f"{model.name} states {name} and no priority_levels, so all requests have the same priority."
                yield UNUSED.at(model.where(FIELD, name), detail, "State priority_levels.")
        return
    if not 1 <= default <= levels:
        yield LEVELS.at(
            model.where(FIELD, "default_priority_level"),
            f"default_priority_level is {default}, and with priority_levels {levels} must be in range [1, {levels}].",
            "State the level of requests that name none; 1 is the highest.",
        )
    for key in policies:
        if not 1 <= int(key) <= levels:
            yield LEVELS.at(
                model.where(FIELD, "priority_queue_policy", key),
                f"priority_queue_policy has the level {key}, and must be in range [1, {levels}].",
                "Correct the key, or raise priority_levels.",
            )


def _ordering(model: LintedModel, _: LintedRepository) -> Findings:
    batching = objects(model.config, FIELD)
    if not batching.get("preserve_ordering"):
        return
    where = model.where(FIELD, "preserve_ordering")
    if number(batching.get("priority_levels")) > 1:
        detail = f"{model.name} preserves the order of requests, but has more than one priority level."
        yield ORDER.at(where, detail, "Remove one of the two.")
    for path, policy in _policies(batching):
        if policy.get("timeout_action") == "DELAY" and number(policy.get("default_timeout_microseconds")):
            detail = f"{model.name} preserves the order of requests, but delays those that time out."
            yield ORDER.at(
                model.where(FIELD, *path), detail, "Set timeout_action: REJECT, or remove preserve_ordering."
            )


def _policies(batching: JsonObject) -> Iterator[tuple[tuple[str, ...], JsonObject]]:
    yield ("default_queue_policy",), objects(batching, "default_queue_policy")
    by_level = objects(batching, "priority_queue_policy")
    for key in by_level:
        yield ("priority_queue_policy", key), objects(by_level, key)


# Checks of sequence batching: its control tensors, its states and its slots.

CONTROL = Check("sequence-control", "Invalid sequence control tensor", Effect.REFUSED)
STATE = Check("sequence-state", "Invalid sequence state", Effect.REFUSED)
STATE_TWICE = Check("sequence-state-duplicate", "Two sequence states use the same tensor", Effect.WRONG)
SLOTS = Check("sequence-slots", "Invalid minimum_slot_utilization", Effect.REFUSED)
FIELD_sequences = "sequence_batching"
_BOOLEAN = ("CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_READY", "CONTROL_SEQUENCE_END")
_PAIRS = ("int32_false_true", "fp32_false_true", "bool_false_true")
_IDS = ("TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING")


def _controls(model: LintedModel, _: LintedRepository) -> Findings:
    tensors: set[str] = set()
    kinds: set[str] = set()
    for index, tensor in enumerate(listed(objects(model.config, FIELD_sequences), "control_input")):
        name = text(tensor.get("name"))
        where = model.where(FIELD_sequences, "control_input", index)
        if not name:
            yield CONTROL.at(where, f"control_input {index} of {model.name} states no name.", "Name the tensor.")
        elif name in tensors:
            detail = f"{name} is named by two control_inputs of {model.name}."
            yield CONTROL.at(where, detail, "Put what one tensor tells under one control_input.")
        tensors.add(name)
        for number_, control in enumerate(listed(tensor, "control")):
            kind = text(control.get("kind")) or _BOOLEAN[0]
            place = model.where(FIELD_sequences, "control_input", index, "control", number_)
            if kind in kinds:
                yield CONTROL.at(place, f"{model.name} states {kind} twice.", "Keep one of them.")
            kinds.add(kind)
            for why in _control_faults(kind, control):
                yield CONTROL.at(place, f"{name}: {why}.")


def _control_faults(kind: str, control: JsonObject) -> Iterator[str]:
    pairs = [name for name in _PAIRS if plain(control, name)]
    if kind not in _BOOLEAN:
        if control.get("data_type", "TYPE_INVALID") not in _IDS:
            yield f"{kind} is of one of {', '.join(_IDS)}, not of {control.get('data_type', 'no type')}"
        if pairs:
            yield f"{kind} takes no {pairs[0]}"
    elif len(pairs) != 1:
        yield f"{kind} takes exactly one of {', '.join(_PAIRS)}"
    elif len(plain(control, pairs[0])) != 2:
        yield f"{pairs[0]} takes two values, for false and true"


def _states(model: LintedModel, _: LintedRepository) -> Findings:
    seen: set[str] = set()
    for index, state in enumerate(listed(objects(model.config, FIELD_sequences), "state")):
        where = model.where(FIELD_sequences, "state", index)
        name = text(state.get("input_name"))
        if name in seen:
            yield STATE_TWICE.at(where, f"{model.name} states the state {name} twice.", "Keep one of them.")
        seen.add(name)
        initial = listed(state, "initial_state")
        if len(initial) > 1:
            yield STATE.at(where, f"The state {name} begins with {len(initial)} initial_states.", "Keep one.")
        for why in _initial_faults(model, state, initial[0]) if len(initial) == 1 else ():
            yield STATE.at(model.where(FIELD_sequences, "state", index, "initial_state", 0), f"The state {name} {why}.")


def _initial_faults(model: LintedModel, state: JsonObject, initial: JsonObject) -> Iterator[str]:
    if initial.get("data_type") != state.get("data_type"):
        yield f"is of {state.get('data_type')}, and begins with {initial.get('data_type', 'no type')}"
    if not initial.get("name"):
        yield "begins with an initial_state that states no name"
    dims, first = plain(state, "dims"), plain(initial, "dims")
    if any(number(dim) < 0 for dim in first):
        yield "begins with dims that vary; the first value has a size"
    elif len(dims) != len(first) or any(a not in (-1, b) for a, b in zip(dims, first, strict=True)):
        yield f"has the dims {list(dims)}, and begins with {list(first)}"
    if not {"zero_data", "data_file"} & set(initial):
        yield "begins with neither zero_data nor data_file"
    file = text(initial.get("data_file"))
    if file and f"initial_state/{file}" not in model.files:
        yield f"begins with initial_state/{file}, which is not in {model.root}"


def _slots(model: LintedModel, _: LintedRepository) -> Findings:
    share = objects(objects(model.config, FIELD_sequences), "direct").get("minimum_slot_utilization", 0)
    if isinstance(share, int | float) and not 0 <= share <= 1:
        where = model.where(FIELD_sequences, "direct", "minimum_slot_utilization")
        yield SLOTS.at(where, f"minimum_slot_utilization is {share}.", "It is a share: 0 to 1.")


CHECKS = CheckGroup(
    checks=(
        SIZE,
        PREFERRED,
        LEVELS,
        UNUSED,
        ORDER,
        OFF,
        CONTROL,
        STATE,
        STATE_TWICE,
        SLOTS,
    ),
    model_checks=(
        _size,
        _preferred,
        _off,
        _priorities,
        _ordering,
        _controls,
        _states,
        _slots,
    ),
)
