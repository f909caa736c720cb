"""Checks a response: outputs that are missing, of another datatype or shape, or not as `smoke.outputs` expects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import prod
from typing import TYPE_CHECKING

from gpuplan.resources.model.smoke.tensors import (
    Datatype,
    ElementKind,
    InvalidTensor,
    ModelSignature,
    ReadFile,
    Shape,
    SmokeIssue,
    TensorSpec,
    format_shape,
    matches,
    shape_of,
    to_array,
)
from gpuplan.types.diagnostic import Problem
from gpuplan.types.value import Json, JsonObject

if TYPE_CHECKING:
    from gpuplan.resources.model.smoke.tensors import Array

DEFAULT_TOLERANCE: Mapping[str, float] = {"FP16": 1e-2, "BF16": 2e-2, "FP32": 1e-5, "FP64": 1e-9}
"""Relative difference that is accepted if no tolerance is stated."""
SHOWN = 3
"""Differences that are listed."""


@dataclass(frozen=True)
class OutputTensor:
    """One output of a response."""

    datatype: str
    shape: Shape
    array: Array | None = field(compare=False)
    """None if it is in shared memory and was not read."""


InferResponse = Mapping[str, OutputTensor]
"""One response, by output."""


@dataclass(frozen=True)
class ExpectedOutput:
    """What one output should be."""

    values: Json = None
    """None = anything."""
    tolerance: float | None = None
    finite: bool = False


def check_expected(outputs: JsonObject, signature: ModelSignature, read: ReadFile) -> Iterator[SmokeIssue]:
    """Expected outputs that a model of this signature can never give."""
    for name, value in outputs.items():
        path = ("outputs", name)
        tensor = signature.outputs.get(name)
        if tensor is None:
            near = get_close_matches(name, signature.outputs, n=1)
            fix = f"Did you mean {near[0]}?" if near else f"Its outputs are: {', '.join(signature.outputs) or 'none'}."
            yield SmokeIssue(path, f"The model has no output {name}.", fix)
            continue
        try:
            if why := _impossible(_expected(value), tensor, signature, read):
                yield SmokeIssue(path, f"The expected value of output {name} is impossible: {why}.")
        except Problem as problem:
            yield from (SmokeIssue((*path, "file"), issue.detail, issue.fix) for issue in problem.diagnostics)


def response_errors(
    response: InferResponse, signature: ModelSignature, batch: int, expected: JsonObject, read: ReadFile
) -> Iterator[str]:
    """All that is wrong with a response to a request of this batch size, without a full stop."""
    for name, tensor in signature.outputs.items():
        output = response.get(name)
        if output is None:
            yield f"output {name} is missing"
        elif why := _undeclared(output, tensor, signature.request_shape(tensor, batch)):
            yield f"output {name} {why}"
        elif name in expected and (why := difference(expected[name], tensor.datatype, output.array, read)):
            yield f"output {name} is not as expected: {why}"


def difference(value: Json, datatype: Datatype, array: Array | None, read: ReadFile) -> str:
    """How an output differs from its expected value; empty if it does not, or was not read yet."""
    import numpy as np

    if array is None:
        return ""
    expected = _expected(value)
    if expected.finite and not np.isfinite(array.astype(np.float64)).all():
        return "it contains NaN or infinite values"
    if expected.values is None:
        return ""
    shape: Shape = tuple(array.shape)
    stated_shape = shape_of(expected.values, read)
    if stated_shape is not None and stated_shape not in (shape, shape[1:]):
        return f"its shape is {format_shape(shape)}, expected {format_shape(stated_shape)}"
    expected_shape = shape if stated_shape is None else stated_shape
    expected_array = to_array(_literal(expected.values, expected_shape), datatype, expected_shape, "", read)
    expected_array = np.broadcast_to(expected_array, shape)
    return _list_differences(array, expected_array, _close(datatype, array, expected_array, expected.tolerance))


def _expected(value: Json) -> ExpectedOutput:
    """The typed form of what a plan file states: values, or a section with them."""
    if not isinstance(value, Mapping):
        return ExpectedOutput(value)
    tolerance = value.get("tolerance")
    return ExpectedOutput(
        values={"file": value["file"]} if value.get("file") is not None else value.get("values"),
        tolerance=float(tolerance) if isinstance(tolerance, int | float) else None,
        finite=value.get("finite") is True,
    )


def _impossible(expected: ExpectedOutput, tensor: TensorSpec, signature: ModelSignature, read: ReadFile) -> str:
    if (expected.finite or expected.tolerance is not None) and tensor.datatype.kind is not ElementKind.FLOAT:
        return f"finite and tolerance are for floats, and the output is {tensor.datatype.name}"
    if expected.values is None:
        return ""
    try:
        shape = shape_of(expected.values, read)
        if shape is None:
            shape = () if not isinstance(expected.values, Mapping) else None
        elif not signature.accepts(shape, tensor):
            declared = format_shape(signature.request_shape(tensor, -1))
            return f"its shape is {format_shape(shape)}, but the output has {declared}"
        if shape is not None:
            to_array(_literal(expected.values, shape), tensor.datatype, shape, "", read)
    except InvalidTensor as error:
        return str(error)
    return ""


def _undeclared(output: OutputTensor, tensor: TensorSpec, declared: Shape) -> str:
    if output.datatype != tensor.datatype.name:
        return f"is {output.datatype}, but the config declares {tensor.datatype.name}"
    if not matches(output.shape, declared):
        return f"has the shape {format_shape(output.shape)}, but the config declares {format_shape(declared)}"
    return ""


def _literal(value: Json, shape: Shape) -> Json:
    """A string is an expected text here, also ``zeros``, ``ones`` and ``random``: nothing is generated."""
    return [value] * prod(shape) if isinstance(value, str) else value


def _close(datatype: Datatype, array: Array, expected: Array, tolerance: float | None) -> Array:
    import numpy as np

    if datatype.kind is not ElementKind.FLOAT:
        return np.asarray(array == expected)
    relative = DEFAULT_TOLERANCE[datatype.name] if tolerance is None else 0.0
    absolute = relative * 1e-3 if tolerance is None else tolerance
    actual, target = array.astype(np.float64), expected.astype(np.float64)
    return np.isclose(actual, target, rtol=relative, atol=absolute, equal_nan=True)


def _list_differences(array: Array, expected: Array, equal: Array) -> str:
    import numpy as np

    indices = np.argwhere(~equal.astype(bool))
    if not len(indices):
        return ""
    places = [tuple(map(int, row)) for row in indices[:SHOWN]]
    shown = [f"{format_shape(at)} is {_format(array[at])}, expected {_format(expected[at])}" for at in places]
    more = f", and {len(indices) - SHOWN} more differ" if len(indices) > SHOWN else ""
    return f"{'; '.join(shown)}{more}"


def _format(value: object) -> str:
    if isinstance(value, bytes):
        return repr(value.decode(errors="replace")[:60])
    return f"{value:.6g}" if isinstance(value, float) else str(value)
