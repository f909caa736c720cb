"""What an answer lacks: outputs that are missing, of another datatype or shape, or not as expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuplan.resources.model.smoke.asked import Asked
from gpuplan.resources.model.smoke.expected import differences
from gpuplan.resources.model.smoke.form import Form, Shape, Tensor, fits, words
from gpuplan.resources.model.smoke.request import Request
from gpuplan.resources.model.smoke.values import ReadFile

if TYPE_CHECKING:
    from gpuplan.resources.model.smoke.datatypes import Array


@dataclass(frozen=True)
class Output:
    """One output of an answer."""

    datatype: str
    shape: Shape
    array: Array | None = field(compare=False)
    """None where it is in shared memory and was not read."""


Answer = Mapping[str, Output]
"""One response, by output."""


def complaints(answer: Answer, request: Request, asked: Asked, read: ReadFile) -> Iterator[str]:
    """All that is wrong with an answer, each as the end of “the model answered, and …”."""
    for name, tensor in request.form.outputs.items():
        output = answer.get(name)
        if output is None:
            yield f"the output {name} is missing"
        elif why := _wrong(output, tensor, request.form, request.batch):
            yield f"the output {name} {why}"
        elif why := _unexpected(output, tensor, asked, read):
            yield f"the output {name} is not as expected: {why}"


def _unexpected(output: Output, tensor: Tensor, asked: Asked, read: ReadFile) -> str:
    if tensor.name not in asked.outputs or output.array is None:
        return ""
    return differences(asked.outputs[tensor.name], tensor.datatype, output.array, read)


def _wrong(output: Output, tensor: Tensor, form: Form, batch: int) -> str:
    if output.datatype != tensor.datatype.name:
        return f"is {output.datatype}, and its config says {tensor.datatype.name}"
    declared = form.full(tensor, batch)
    if not fits(output.shape, declared):
        return f"has the shape {words(output.shape)}, and its config says {words(declared)}"
    return ""
