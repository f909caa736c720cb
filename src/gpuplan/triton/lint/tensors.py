"""Checks of inputs and outputs: their names, types and shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from gpuplan.triton.lint.check import Check, Effect, Family, Findings
from gpuplan.triton.lint.repository import Repository, Subject, listed, number, objects, plain, text
from gpuplan.types.diagnostic import Severity
from gpuplan.types.value import Json, JsonObject

NAME = Check("tensor-name", "A tensor has no name", Effect.REFUSED)
TWICE = Check("tensor-duplicate", "Two tensors have one name", Effect.WRONG)
TYPE = Check("tensor-type", "A tensor has no data type", Effect.REFUSED)
DIMS = Check("tensor-dims", "A tensor's dims are not valid", Effect.REFUSED)
RESHAPE = Check("tensor-reshape", "A tensor cannot be reshaped so", Effect.REFUSED)
FORMAT = Check("tensor-format", "A tensor's format does not fit", Effect.REFUSED)
SHAPE = Check("shape-tensor", "Only TensorRT has such tensors", Effect.REFUSED)
NOTHING = Check("tensors-missing", "A model states no inputs or outputs", Effect.WRONG, Severity.WARNING)
BATCH = Check("batch-tensor", "A batch tensor does not fit", Effect.REFUSED)

SELF_DESCRIBING = frozenset({"onnxruntime", "tensorrt", "tensorflow", "openvino"})
"""Backends that read tensors off the model file where the config has none (model_configuration.md)."""
_VARIABLE = -1


def tensors(subject: Subject) -> Iterator[tuple[str, int, JsonObject]]:
    """Every input and output: which it is, its number there, and what is stated of it."""
    for kind in ("input", "output"):
        for index, tensor in enumerate(listed(subject.config, kind)):
            yield kind, index, tensor


def completed(subject: Subject, repository: Repository) -> bool:
    """True where the server may learn the tensors from the model itself."""
    knows = subject.backend in SELF_DESCRIBING or subject.backend not in ("python", "pytorch", "")
    return repository.server.completes_configs and (knows or _completes_itself(subject))


def _completes_itself(subject: Subject) -> bool:
    from gpuplan.triton.lint.pythonsource import sources

    return any(source.method("auto_complete_config") for source in sources(subject))


def _each(subject: Subject, repository: Repository) -> Findings:
    free = completed(subject, repository)
    plan = subject.backend == "tensorrt"
    for kind, index, tensor in tensors(subject):
        name = text(tensor.get("name"))
        if not name:
            where = subject.where(kind, index)
            yield NAME.at(where, f"{kind} {index} of {subject.name} states no name.", "Name it as the model does.")
            continue
        if not free and tensor.get("data_type", "TYPE_INVALID") == "TYPE_INVALID":
            detail = f"The {kind} {name} of {subject.name} states no data_type."
            yield TYPE.at(subject.where(kind, index, "data_type"), detail, "State it, such as TYPE_FP32.")
        yield from _dims(subject, kind, index, tensor, free)
        if tensor.get("is_shape_tensor") and not plan:
            detail = f"{name} is a shape tensor, and {subject.name} is no TensorRT plan."
            yield SHAPE.at(subject.where(kind, index, "is_shape_tensor"), detail, "Take is_shape_tensor out.")
        if tensor.get("is_non_linear_format_io") and not plan:
            detail = f"{name} is in a non-linear format, and {subject.name} is no TensorRT plan."
            yield SHAPE.at(subject.where(kind, index, "is_non_linear_format_io"), detail, "Take it out.")


def _dims(subject: Subject, kind: str, index: int, tensor: JsonObject, free: bool) -> Findings:
    name, dims = text(tensor.get("name")), plain(tensor, "dims")
    where = subject.where(kind, index, "dims")
    if not dims and not free:
        detail = f"The {kind} {name} of {subject.name} states no dims."
        yield DIMS.at(where, detail, "State them without the batch dimension; -1 is a size that varies.")
    if bad := [dim for dim in dims if number(dim) < 1 and dim != _VARIABLE]:
        detail = f"The {kind} {name} has the dimension {bad[0]}."
        yield DIMS.at(where, detail, "A dimension is 1 or more, or -1 where it varies.")
    images = tensor.get("format") in ("FORMAT_NHWC", "FORMAT_NCHW")
    if dims and (images or tensor.get("is_non_linear_format_io")) and len(dims) != 3:
        detail = f"{name} is in a format of three dimensions, and states {len(dims)}."
        yield FORMAT.at(subject.where(kind, index, "format"), detail, "State three dims, or take the format out.")
    if "reshape" in tensor and dims and not bad:
        shape = plain(objects(tensor, "reshape"), "shape")
        if why := _misfit(dims, shape, number(subject.config.get("max_batch_size"))):
            yield RESHAPE.at(
                subject.where(kind, index, "reshape"),
                f"{name} cannot become {_shown(shape)} from {_shown(dims)}: {why}.",
                "The elements must stay as many, between one variable dimension and the next.",
            )


def _misfit(dims: Sequence[Json], shape: Sequence[Json], batch: int) -> str:
    """Why dims cannot become a shape (ValidateIOShape in model_config_utils.cc), or an empty text."""
    if not shape and not batch:
        return "a model that does not batch has no tensors without dimensions"
    if any(number(each) < 1 and each != _VARIABLE for each in shape):
        return "a dimension is 1 or more, or -1"
    old, new = _stretches(dims), _stretches(shape)
    if len(old) != len(new):
        return "they have not as many variable dimensions"
    return "" if old == new else "they have not as many elements"


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


def _twice(subject: Subject, _: Repository) -> Findings:
    seen: set[tuple[str, str]] = set()
    for kind, index, tensor in tensors(subject):
        name = text(tensor.get("name"))
        if name and (kind, name) in seen:
            detail = f"{subject.name} states the {kind} {name} twice; Triton takes both, and requests reach one."
            yield TWICE.at(subject.where(kind, index), detail, "Rename or remove one.")
        seen.add((kind, name))


def _nothing(subject: Subject, repository: Repository) -> Findings:
    if subject.ensemble or completed(subject, repository) or subject.backend not in ("python", "pytorch"):
        return
    for kind in ("input", "output"):
        if not listed(subject.config, kind):
            detail = f"{subject.name} states no {kind}, and its backend cannot find them out."
            yield NOTHING.at(subject.where(kind), detail, f"State {kind} with name, data_type and dims.")


def _batch_io(subject: Subject, _: Repository) -> Findings:
    names = {kind: {text(each.get("name")) for each in listed(subject.config, kind)} for kind in ("input", "output")}
    for field in ("batch_input", "batch_output"):
        for index, batch in enumerate(listed(subject.config, field)):
            for why in _batch_faults(field, batch, names):
                yield BATCH.at(subject.where(field, index), f"{field} {index} of {subject.name} {why}.")


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


FAMILY = Family((NAME, TWICE, TYPE, DIMS, RESHAPE, FORMAT, SHAPE, NOTHING, BATCH), (_each, _twice, _nothing, _batch_io))
