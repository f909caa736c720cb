"""How the tensors of a request lie in a region of shared memory: inputs first, then outputs whose size is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from gpuplan.resources.model.smoke.answer import Answer
from gpuplan.resources.model.smoke.datatypes import from_bytes, to_bytes
from gpuplan.resources.model.smoke.request import Request
from gpuplan.types.diagnostic import Diagnostic, Problem

ALIGNED = 256
"""Bytes to whose multiples tensors are moved up, as cudaMalloc does; the strictest that any backend asks for."""
LARGEST = 1 << 30
"""Bytes of a region: all of it is held here as well, and what one output takes a config alone may say."""


@dataclass(frozen=True)
class Slot:
    """Where one tensor lies."""

    offset: int
    size: int


@dataclass(frozen=True)
class Layout:
    """A region for one request. An output of variable size is not in it; it comes with the answer."""

    inputs: Mapping[str, Slot]
    outputs: Mapping[str, Slot]
    content: bytes
    """What the region holds before the request: the inputs, and zeros where outputs will be."""


def layout_of(request: Request) -> Layout:
    """The region that a request needs; at least one byte, since an empty one cannot be mapped.

    Raises:
        Problem: it would be larger than `LARGEST`.
    """
    content = bytearray()
    inputs: dict[str, Slot] = {}
    for each in request.inputs:
        raw = to_bytes(each.tensor.datatype, each.array)
        inputs[each.tensor.name] = Slot(len(content), len(raw))
        content += raw + bytes(-len(raw) % ALIGNED)
    outputs: dict[str, Slot] = {}
    for name, tensor in request.form.outputs.items():
        shape = request.form.full(tensor, request.batch)
        if tensor.datatype.size and -1 not in shape:
            outputs[name] = Slot(len(content), tensor.datatype.size * prod(shape))
            if len(content) + outputs[name].size > LARGEST:
                raise Problem(_too_large(request.model, name, outputs[name].size))
            content += bytes(outputs[name].size + -outputs[name].size % ALIGNED)
    return Layout(inputs, outputs, bytes(content) or bytes(ALIGNED))


def _too_large(model: str, output: str, size: int) -> Diagnostic:
    return Diagnostic(
        "A request is too large for shared memory",
        f"The output {output} of {model} takes {size:,} bytes, and {LARGEST >> 20} MiB is all that is asked for.",
        "Write shared_memory: none, or a smaller batch.",
    )


def filled(answer: Answer, layout: Layout, request: Request, region: bytes) -> Answer:
    """The answer with what its outputs left in the region.

    Raises:
        ValueError: the region is not as long as it was, or an output not as long as its shape says.
    """
    found = dict(answer)
    for name, slot in layout.outputs.items():
        output = found.get(name)
        datatype = request.form.outputs[name].datatype
        if output is not None and output.array is None and output.datatype == datatype.name:
            raw = region[slot.offset : slot.offset + slot.size]
            found[name] = replace(output, array=from_bytes(datatype, raw, output.shape))
    return found
