"""Checks of sequence batching: its control tensors, its states and its slots."""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.triton.lint.check import Check, Effect, Family, Findings
from gpuplan.triton.lint.repository import Repository, Subject, listed, number, objects, plain, text
from gpuplan.types.value import JsonObject

CONTROL = Check("sequence-control", "A control tensor of sequences is not valid", Effect.REFUSED)
STATE = Check("sequence-state", "A state of sequences is not valid", Effect.REFUSED)
STATE_TWICE = Check("sequence-state-duplicate", "Two states have one tensor", Effect.WRONG)
SLOTS = Check("sequence-slots", "A share of slots is not valid", Effect.REFUSED)
FIELD = "sequence_batching"
_BOOLEAN = ("CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_READY", "CONTROL_SEQUENCE_END")
_PAIRS = ("int32_false_true", "fp32_false_true", "bool_false_true")
_IDS = ("TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING")


def _controls(subject: Subject, _: Repository) -> Findings:
    tensors: set[str] = set()
    kinds: set[str] = set()
    for index, tensor in enumerate(listed(objects(subject.config, FIELD), "control_input")):
        name = text(tensor.get("name"))
        where = subject.where(FIELD, "control_input", index)
        if not name:
            yield CONTROL.at(where, f"control_input {index} of {subject.name} states no name.", "Name the tensor.")
        elif name in tensors:
            detail = f"{name} is named by two control_inputs of {subject.name}."
            yield CONTROL.at(where, detail, "Put what one tensor tells under one control_input.")
        tensors.add(name)
        for number_, control in enumerate(listed(tensor, "control")):
            kind = text(control.get("kind")) or _BOOLEAN[0]
            place = subject.where(FIELD, "control_input", index, "control", number_)
            if kind in kinds:
                yield CONTROL.at(place, f"{subject.name} states {kind} twice.", "Keep one of them.")
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


def _states(subject: Subject, _: Repository) -> Findings:
    seen: set[str] = set()
    for index, state in enumerate(listed(objects(subject.config, FIELD), "state")):
        where = subject.where(FIELD, "state", index)
        name = text(state.get("input_name"))
        if name in seen:
            yield STATE_TWICE.at(where, f"{subject.name} states the state {name} twice.", "Keep one of them.")
        seen.add(name)
        initial = listed(state, "initial_state")
        if len(initial) > 1:
            yield STATE.at(where, f"The state {name} begins with {len(initial)} initial_states.", "Keep one.")
        for why in _initial_faults(subject, state, initial[0]) if len(initial) == 1 else ():
            yield STATE.at(subject.where(FIELD, "state", index, "initial_state", 0), f"The state {name} {why}.")


def _initial_faults(subject: Subject, state: JsonObject, initial: JsonObject) -> Iterator[str]:
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
    if file and f"initial_state/{file}" not in subject.files:
        yield f"begins with initial_state/{file}, which is not in {subject.root}"


def _slots(subject: Subject, _: Repository) -> Findings:
    share = objects(objects(subject.config, FIELD), "direct").get("minimum_slot_utilization", 0)
    if isinstance(share, int | float) and not 0 <= share <= 1:
        where = subject.where(FIELD, "direct", "minimum_slot_utilization")
        yield SLOTS.at(where, f"minimum_slot_utilization is {share}.", "It is a share: 0 to 1.")


FAMILY = Family((CONTROL, STATE, STATE_TWICE, SLOTS), (_controls, _states, _slots))
