"""Checks of inputs and outputs: their names, types and shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

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
from gpuplan.types.value import Json, JsonObject

NAME = Check("tensor-name", "A tensor has no name", Effect.REFUSED)
TWICE = Check("tensor-duplicate", "Two tensors have one name", Effect.WRONG)
TYPE = Check("tensor-type", "A tensor has no data type", Effect.REFUSED)
DIMS = Check("tensor-dims", "A tensor's dims are not valid", Effect.REFUSED)
RESHAPE = Check("tensor-reshape", "Invalid reshape", Effect.REFUSED)
FORMAT = Check("tensor-format", "Invalid tensor format", Effect.REFUSED)
SHAPE = Check("shape-tensor", "Only TensorRT plans have such tensors", Effect.REFUSED)
NOTHING = Check("tensors-missing", "A model states no inputs or outputs", Effect.WRONG, Severity.WARNING)
BATCH = Check("batch-tensor", "Invalid batch tensor", Effect.REFUSED)

SELF_DESCRIBING = frozenset({"onnxruntime", "tensorrt", "tensorflow", "openvino"})
"""Backends that read tensors off the model file where the config has none (model_configuration.md)."""
_VARIABLE = -1


def tensors(model: LintedModel) -> Iterator[tuple[str, int, JsonObject]]:
    """Every input and output: which it is, its number there, and what is stated of it."""
    for kind in ("input", "output"):
        for index, tensor in enumerate(listed(model.config, kind)):
            yield kind, index, tensor


def completed(model: LintedModel, repository: LintedRepository) -> bool:
    """True where the server may learn the tensors from the model itself."""
    knows = model.backend in SELF_DESCRIBING or model.backend not in ("python", "pytorch", "")
    return repository.server.completes_configs and (knows or _completes_itself(model))


def _completes_itself(model: LintedModel) -> bool:
    from gpuplan.triton.lint.python import sources

    return any(source.method("auto_complete_config") for source in sources(model))


def _each(model: LintedModel, repository: LintedRepository) -> Findings:
    free = completed(model, repository)
    plan = model.backend == "tensorrt"
    for kind, index, tensor in tensors(model):
        name = text(tensor.get("name"))
        if not name:
            where = model.where(kind, index)
            yield NAME.at(where, f"{kind} {index} of {model.name} states no name.", "Name it as the model does.")
            continue
        if not free and tensor.get("data_type", "TYPE_INVALID") == "TYPE_INVALID":
            detail = f"The {kind} {name} of {model.name} states no data_type."
            yield TYPE.at(model.where(kind, index, "data_type"), detail, "State it, such as TYPE_FP32.")
        yield from _dims(model, kind, index, tensor, free)
        if tensor.get("is_shape_tensor") and not plan:
            detail = f"{name} is a shape tensor, and {model.name} is no TensorRT plan."
            yield SHAPE.at(model.where(kind, index, "is_shape_tensor"), detail, "Remove is_shape_tensor.")
        if tensor.get("is_non_linear_format_io") and not plan:
            detail = f"{name} is in a non-linear format, and {model.name} is no TensorRT plan."
            yield SHAPE.at(model.where(kind, index, "is_non_linear_format_io"), detail, "Remove it.")


def _dims(model: LintedModel, kind: str, index: int, tensor: JsonObject, free: bool) -> Findings:
    name, dims = text(tensor.get("name")), plain(tensor, "dims")
    where = model.where(kind, index, "dims")
    if not dims and not free:
        detail = f"The {kind} {name} of {model.name} states no dims."
        yield DIMS.at(where, detail, "State them without the batch dimension; -1 is a size that varies.")
    if bad := [dim for dim in dims if number(dim) < 1 and dim != _VARIABLE]:
        detail = f"The {kind} {name} has the dimension {bad[0]}."
        yield DIMS.at(where, detail, "A dimension is 1 or more, or -1 where it varies.")
    images = tensor.get("format") in ("FORMAT_NHWC", "FORMAT_NCHW")
    if dims and (images or tensor.get("is_non_linear_format_io")) and len(dims) != 3:
        detail = f"{name} is in a format of three dimensions, and states {len(dims)}."
        yield FORMAT.at(model.where(kind, index, "format"), detail, "State three dims, or remove the format.")
    if "reshape" in tensor and dims and not bad:
        shape = plain(objects(tensor, "reshape"), "shape")
        if why := _misfit(dims, shape, number(model.config.get("max_batch_size"))):
            yield RESHAPE.at(
                model.where(kind, index, "reshape"),
                f"{name} cannot become {_shown(shape)} from {_shown(dims)}: {why}.",
                "The number of elements must stay the same between variable dimensions.",
            )


def _misfit(dims: Sequence[Json], shape: Sequence[Json], batch: int) -> str:
    """Why dims cannot become a shape (ValidateIOShape in model_config_utils.cc), or an empty text."""
    if not shape and not batch:
        return "a model without batching cannot have tensors without dimensions"
    if any(number(each) < 1 and each != _VARIABLE for each in shape):
        return "a dimension is 1 or more, or -1"
    old, new = _stretches(dims), _stretches(shape)
    if len(old) != len(new):
        return "they have different numbers of variable dimensions"
    return "" if old == new else "they have different numbers of elements"


def _stretches(dims: Sequence[Json]) -> list[int]:
    """The number of elements between one variable dimension and the next."""
    parts: list[list[int]] = [[]]
    for each in dims:
        if each == _VARIABLE:
            parts.append([])
        else:
            parts[-1].append(number(each))
    return [prod(part) for part in parts]


def _shown(dims: Sequence[Json]) -> str:
    return f"[{', '.join(map(str, dims))}]"


def _twice(model: LintedModel, _: LintedRepository) -> Findings:
    seen: set[tuple[str, str]] = set()
    for kind, index, tensor in tensors(model):
        name = text(tensor.get("name"))
        if name and (kind, name) in seen:
            detail = f"{model.name} states the {kind} {name} twice; Triton accepts both, but requests reach only one."
            yield TWICE.at(model.where(kind, index), detail, "Rename or remove one.")
        seen.add((kind, name))


def _nothing(model: LintedModel, repository: LintedRepository) -> Findings:
    if model.ensemble or completed(model, repository) or model.backend not in ("python", "pytorch"):
        return
    for kind in ("input", "output"):
        if not listed(model.config, kind):
            detail = f"{model.name} states no {kind}, and its backend cannot detect them."
            yield NOTHING.at(model.where(kind), detail, f"State {kind} with name, data_type and dims.")


def _batch_io(model: LintedModel, _: LintedRepository) -> Findings:
    names = {kind: {text(each.get("name")) for each in listed(model.config, kind)} for kind in ("input", "output")}
    for field in ("batch_input", "batch_output"):
        for index, batch in enumerate(listed(model.config, field)):
            for why in _batch_faults(field, batch, names):
                yield BATCH.at(model.where(field, index), f"{field} {index} of {model.name} {why}.")


def _batch_faults(field: str, batch: JsonObject, names: dict[str, set[str]]) -> Iterator[str]:
    sources = plain(batch, "source_input")
    if len(sources) != 1:
        yield f"has {len(sources)} source inputs, and takes one"
    for source in sources:
        if source not in names["input"]:
            yield f"has the source input {source}, which the model does not have"
    if field == "batch_input":
        if batch.get("data_type") not in ("TYPE_INT32", "TYPE_FP32"):
            yield "has another data type than TYPE_INT32 and TYPE_FP32"
        return
    targets = plain(batch, "target_name")
    for target in targets:
        if target not in names["output"]:
            yield f"has the target {target}, which is no output of the model"
    if len(set(targets)) != len(targets):
        yield "names a target twice"


# Checks of warm-up: whether its samples are requests that the model takes.

INPUT = Check("warmup-input", "A warm-up sample does not match the model", Effect.REFUSED)
BATCH_warmup = Check("warmup-batch-size", "A warm-up sample exceeds the batch size", Effect.REFUSED)
NOTHING_warmup = Check("warmup-nothing", "A warm-up sample sends nothing", Effect.IGNORED, Severity.WARNING)
DATA = Check("warmup-data", "A warm-up sample has no data", Effect.REFUSED)
FIELD = "model_warmup"
_BYTES = {
    "TYPE_BOOL": 1, "TYPE_UINT8": 1, "TYPE_UINT16": 2, "TYPE_UINT32": 4, "TYPE_UINT64": 8, "TYPE_INT8": 1,
    "TYPE_INT16": 2, "TYPE_INT32": 4, "TYPE_INT64": 8, "TYPE_FP16": 2, "TYPE_FP32": 4, "TYPE_FP64": 8, "TYPE_BF16": 2,
}  # fmt: skip
"""Size of one element; a text has none of its own."""


def _samples(model: LintedModel, _: LintedRepository) -> Findings:
    if model.ensemble:
        return
    largest = number(model.config.get("max_batch_size"))
    for index, sample in enumerate(listed(model.config, FIELD)):
        size = number(sample.get("batch_size"))
        where = model.where(FIELD, index, "batch_size")
        if size > max(1, largest):
            detail = f"A warm-up of {model.name} has {size} requests, and a batch at most {max(1, largest)}."
            yield BATCH_warmup.at(where, detail, "Keep batch_size within max_batch_size.")
        if size == 0:
            detail = f"A warm-up of {model.name} states no batch_size, and so sends no request at all."
            yield NOTHING_warmup.at(where, detail, "State batch_size: 1.")
        else:
            yield from _inputs(model, index, sample)


def _inputs(model: LintedModel, index: int, sample: JsonObject) -> Findings:
    given = objects(sample, "inputs")
    tensors = {text(tensor.get("name")): tensor for tensor in listed(model.config, "input")}
    for name, tensor in tensors.items():
        if name not in given and tensor.get("optional") is not True:
            detail = f"A warm-up of {model.name} lacks the input {name}."
            yield INPUT.at(model.where(FIELD, index, "inputs"), detail, "Give every input a value.")
    for name in given:
        where = model.where(FIELD, index, "inputs", name)
        if name not in tensors:
            detail = f"A warm-up of {model.name} gives {name}, which is not one of its inputs."
            yield INPUT.at(where, detail, "Remove it.", Severity.WARNING)
        for check, why in _misfits(model, tensors.get(name, {}), objects(given, name)):
            yield check.at(where, f"A warm-up of {model.name} gives {name} {why}.")


def _misfits(model: LintedModel, tensor: JsonObject, given: JsonObject) -> Iterator[tuple[Check, str]]:
    kind = text(tensor.get("data_type"))
    dims, wanted = plain(given, "dims"), plain(tensor, "dims")
    if "data_type" not in given or (kind and given["data_type"] != kind):
        yield INPUT, f"as {given.get('data_type', 'no type')}" + (f", and the model wants {kind}" if kind else "")
    if any(number(dim) < 0 for dim in dims):
        yield INPUT, "dims that vary; a sample has a size"
    elif wanted and (len(dims) != len(wanted) or any(a not in (-1, b) for a, b in zip(wanted, dims, strict=True))):
        yield INPUT, f"the dims {_shown_warmup(dims)}, and the model wants {_shown_warmup(wanted)}"
    if not {"zero_data", "random_data", "input_data_file"} & set(given):
        yield DATA, "neither zero_data nor random_data nor input_data_file"
    elif "input_data_file" in given:
        yield from _file_misfits(model, given)


def _file_misfits(model: LintedModel, given: JsonObject) -> Iterator[tuple[Check, str]]:
    path = f"warmup/{text(given['input_data_file'])}"
    size = prod(number(dim) for dim in plain(given, "dims")) * _BYTES.get(text(given.get("data_type")), 0)
    if path not in model.files:
        yield DATA, f"the data of {path}, which is not in {model.root}"
    elif (there := _size(model, path)) < size:
        yield DATA, f"the {there} bytes of {path}, and they should be {size}"


def _size(model: LintedModel, path: str) -> int:
    try:
        return model.files[path].stat().st_size
    except OSError:
        return 0


def _shown_warmup(dims: tuple[Json, ...]) -> str:
    return f"[{', '.join(map(str, dims))}]"


CHECKS = CheckGroup(
    checks=(
        NAME,
        TWICE,
        TYPE,
        DIMS,
        RESHAPE,
        FORMAT,
        SHAPE,
        NOTHING,
        BATCH,
        INPUT,
        BATCH_warmup,
        NOTHING_warmup,
        DATA,
    ),
    model_checks=(
        _each,
        _twice,
        _nothing,
        _batch_io,
        _samples,
    ),
)
