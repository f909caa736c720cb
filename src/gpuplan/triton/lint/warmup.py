"""Checks of warm-up: whether its samples are requests that the model takes."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gpuplan.triton.lint.check import Check, Effect, Family, Findings
from gpuplan.triton.lint.repository import Repository, Subject, listed, number, objects, plain, text
from gpuplan.types.diagnostic import Severity
from gpuplan.types.value import Json, JsonObject

INPUT = Check("warmup-input", "A warm-up is no request that the model takes", Effect.REFUSED)
BATCH = Check("warmup-batch-size", "A warm-up is larger than a batch", Effect.REFUSED)
NOTHING = Check("warmup-nothing", "A warm-up sends nothing", Effect.IGNORED, Severity.WARNING)
DATA = Check("warmup-data", "A warm-up has no data", Effect.REFUSED)
FIELD = "model_warmup"
_BYTES = {
    "TYPE_BOOL": 1, "TYPE_UINT8": 1, "TYPE_UINT16": 2, "TYPE_UINT32": 4, "TYPE_UINT64": 8, "TYPE_INT8": 1,
    "TYPE_INT16": 2, "TYPE_INT32": 4, "TYPE_INT64": 8, "TYPE_FP16": 2, "TYPE_FP32": 4, "TYPE_FP64": 8, "TYPE_BF16": 2,
}  # fmt: skip
"""Size of one element; a text has none of its own."""


def _samples(subject: Subject, _: Repository) -> Findings:
    if subject.ensemble:
        return
    largest = number(subject.config.get("max_batch_size"))
    for index, sample in enumerate(listed(subject.config, FIELD)):
        size = number(sample.get("batch_size"))
        where = subject.where(FIELD, index, "batch_size")
        if size > max(1, largest):
            detail = f"A warm-up of {subject.name} has {size} requests, and a batch at most {max(1, largest)}."
            yield BATCH.at(where, detail, "Keep batch_size within max_batch_size.")
        if size == 0:
            detail = f"A warm-up of {subject.name} states no batch_size, and so sends no request at all."
            yield NOTHING.at(where, detail, "State batch_size: 1.")
        else:
            yield from _inputs(subject, index, sample)


def _inputs(subject: Subject, index: int, sample: JsonObject) -> Findings:
    given = objects(sample, "inputs")
    tensors = {text(tensor.get("name")): tensor for tensor in listed(subject.config, "input")}
    for name, tensor in tensors.items():
        if name not in given and tensor.get("optional") is not True:
            detail = f"A warm-up of {subject.name} lacks the input {name}."
            yield INPUT.at(subject.where(FIELD, index, "inputs"), detail, "Give every input a value.")
    for name in given:
        where = subject.where(FIELD, index, "inputs", name)
        if name not in tensors:
            detail = f"A warm-up of {subject.name} gives {name}, which is none of its inputs."
            yield INPUT.at(where, detail, "Take it out.", Severity.WARNING)
        for check, why in _misfits(subject, tensors.get(name, {}), objects(given, name)):
            yield check.at(where, f"A warm-up of {subject.name} gives {name} {why}.")


def _misfits(subject: Subject, tensor: JsonObject, given: JsonObject) -> Iterator[tuple[Check, str]]:
    kind = text(tensor.get("data_type"))
    dims, wanted = plain(given, "dims"), plain(tensor, "dims")
    if "data_type" not in given or (kind and given["data_type"] != kind):
        yield INPUT, f"as {given.get('data_type', 'no type')}" + (f", and the model wants {kind}" if kind else "")
    if any(number(dim) < 0 for dim in dims):
        yield INPUT, "dims that vary; a sample has a size"
    elif wanted and (len(dims) != len(wanted) or any(a not in (-1, b) for a, b in zip(wanted, dims, strict=True))):
        yield INPUT, f"the dims {_shown(dims)}, and the model wants {_shown(wanted)}"
    if not {"zero_data", "random_data", "input_data_file"} & set(given):
        yield DATA, "neither zero_data nor random_data nor input_data_file"
    elif "input_data_file" in given:
        yield from _file_misfits(subject, given)


def _file_misfits(subject: Subject, given: JsonObject) -> Iterator[tuple[Check, str]]:
    path = f"warmup/{text(given['input_data_file'])}"
    size = prod(number(dim) for dim in plain(given, "dims")) * _BYTES.get(text(given.get("data_type")), 0)
    if path not in subject.files:
        yield DATA, f"the data of {path}, which is not in {subject.root}"
    elif (there := _size(subject, path)) < size:
        yield DATA, f"the {there} bytes of {path}, and they should be {size}"


def _size(subject: Subject, path: str) -> int:
    try:
        return subject.files[path].stat().st_size
    except OSError:
        return 0


def _shown(dims: tuple[Json, ...]) -> str:
    return f"[{', '.join(map(str, dims))}]"


FAMILY = Family((INPUT, BATCH, NOTHING, DATA), (_samples,))
