"""What the outputs of a smoke inference are expected to be: whether that can be, and whether it is so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import prod
from typing import TYPE_CHECKING

from gpuplan.resources.model.smoke.asked import Asked
from gpuplan.resources.model.smoke.datatypes import Datatype, Holds
from gpuplan.resources.model.smoke.fault import Fault, Unfit
from gpuplan.resources.model.smoke.form import Form, Shape, Tensor, fits, words
from gpuplan.resources.model.smoke.values import ReadFile, elements, own_shape
from gpuplan.types.diagnostic import Problem
from gpuplan.types.value import Json

if TYPE_CHECKING:
    from gpuplan.resources.model.smoke.datatypes import Array

ROUNDING: Mapping[str, float] = {"FP16": 1e-2, "BF16": 2e-2, "FP32": 1e-5, "FP64": 1e-9}
"""Part of the expected value that an answer may be off, where no tolerance is stated."""
TOLD = 3
"""Differences that are told."""


@dataclass(frozen=True)
class Expected:
    """What one output should be."""

    values: Json = None
    """None = anything."""
    tolerance: float | None = None
    finite: bool = False


def expected_of(value: Json) -> Expected:
    """The types of what a plan file states: values, or a section with them."""
    if not isinstance(value, Mapping):
        return Expected(value)
    tolerance = value.get("tolerance")
    values = {"file": value["file"]} if value.get("file") is not None else value.get("values")
    return Expected(
        values,
        float(tolerance) if isinstance(tolerance, int | float) else None,
        value.get("finite") is True,
    )


def faults_of(asked: Asked, form: Form, read: ReadFile) -> Iterator[Fault]:
    """What cannot be expected of a model of this form."""
    for name, value in asked.outputs.items():
        path = ("outputs", name)
        tensor = form.outputs.get(name)
        if tensor is None:
            near = get_close_matches(name, form.outputs, n=1)
            fix = f"Did you mean {near[0]}?" if near else f"Its outputs are: {', '.join(form.outputs) or 'none'}."
            yield Fault(path, f"The model has no output {name}.", fix)
            continue
        try:
            if why := _impossible(expected_of(value), tensor, form, read):
                yield Fault(path, f"The output {name} can never be so: {why}.")
        except Problem as problem:
            yield from (Fault((*path, "file"), each.detail, each.fix) for each in problem.diagnostics)


def _impossible(expected: Expected, tensor: Tensor, form: Form, read: ReadFile) -> str:
    numbers = tensor.datatype.holds is Holds.NUMBERS
    if (expected.finite or expected.tolerance is not None) and not numbers:
        return f"finite and tolerance are for floats, and it is {tensor.datatype.name}"
    if expected.values is None:
        return ""
    try:
        shape = own_shape(expected.values, read)
        if shape is None:
            shape = () if not isinstance(expected.values, Mapping) else None
        elif not (fits(shape, tensor.dims) or (form.max_batch and fits(shape, (-1, *tensor.dims)))):
            return f"{words(shape)} is no shape of it, which are {words(form.full(tensor, -1))}"
        if shape is not None:
            elements(_plain(expected.values, shape), tensor.datatype, shape, "", read)
    except Unfit as unfit:
        return str(unfit)
    return ""


def differences(value: Json, datatype: Datatype, array: Array, read: ReadFile) -> str:
    """How an answer differs from what is expected; empty where it does not."""
    import numpy as np

    expected = expected_of(value)
    if expected.finite and not np.isfinite(array.astype(np.float64)).all():
        return "it holds values that are not finite (NaN or infinite)"
    if expected.values is None:
        return ""
    shape: Shape = tuple(array.shape)
    own = own_shape(expected.values, read)
    if own is not None and own not in (shape, shape[1:]):
        return f"its shape is {words(shape)}, expected was {words(own)}"
    held = shape if own is None else own
    wanted = elements(_plain(expected.values, held), datatype, held, "", read)
    wanted = np.broadcast_to(wanted, shape)
    return _told(array, wanted, _close(datatype, array, wanted, expected.tolerance))


def _plain(value: Json, shape: Shape) -> Json:
    """zeros, ones and random stand for themselves in an answer of texts; nothing is generated here."""
    return [value] * prod(shape) if isinstance(value, str) else value


def _close(datatype: Datatype, array: Array, wanted: Array, tolerance: float | None) -> Array:
    import numpy as np

    if datatype.holds is not Holds.NUMBERS:
        return np.asarray(array == wanted)
    found, right = array.astype(np.float64), wanted.astype(np.float64)
    relative = ROUNDING[datatype.name] if tolerance is None else 0.0
    absolute = relative * 1e-3 if tolerance is None else tolerance
    return np.isclose(found, right, rtol=relative, atol=absolute, equal_nan=True)


def _told(array: Array, wanted: Array, same: Array) -> str:
    import numpy as np

    where = np.argwhere(~same.astype(bool))
    if not len(where):
        return ""
    shown = [
        f"{words(tuple(map(int, index)))} is {_value(array[tuple(index)])}, expected was {_value(wanted[tuple(index)])}"
        for index in where[:TOLD]
    ]
    more = f", and {len(where) - TOLD} more differ" if len(where) > TOLD else ""
    return f"{'; '.join(shown)}{more}"


def _value(value: object) -> str:
    if isinstance(value, bytes):
        return repr(value.decode(errors="replace")[:60])
    return f"{value:.6g}" if isinstance(value, float) else str(value)
