"""Builds the inference request of a smoke test, or lists everything in its section that does not fit the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from math import prod
from typing import TYPE_CHECKING

from gpuplan.resources.model.smoke.response import InferResponse, check_expected
from gpuplan.resources.model.smoke.spec import SmokeSpec
from gpuplan.resources.model.smoke.tensors import (
    InvalidTensor,
    ModelSignature,
    ReadFile,
    Shape,
    SmokeIssue,
    TensorSpec,
    flatten,
    format_shape,
    from_bytes,
    shape_of,
    to_array,
    to_bytes,
)
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.value import Json

if TYPE_CHECKING:
    from gpuplan.resources.model.smoke.tensors import Array

MAX_ELEMENTS = 1 << 28
"""Elements of one generated tensor; more is taken for a typing error."""
ALIGNMENT = 256
"""Bytes; what cudaMalloc aligns to, the strictest that a backend asks for."""
MAX_REGION = 1 << 30
"""Bytes of a shared memory region: gpuplan holds all of it too, and a config alone decides the size of an output."""


@dataclass(frozen=True)
class InputTensor:
    """One input of a request."""

    tensor: TensorSpec
    shape: Shape
    array: Array = field(compare=False)


@dataclass(frozen=True)
class InferRequest:
    """One inference request."""

    model: str
    signature: ModelSignature
    inputs: tuple[InputTensor, ...]
    batch: int
    """1 if the model has no batch dimension."""


def build_request(
    model: str, spec: SmokeSpec, signature: ModelSignature, read: ReadFile
) -> InferRequest | tuple[SmokeIssue, ...]:
    """The request, or all issues of the `smoke` section."""
    builder = _RequestBuilder(model, spec, signature, read)
    request = builder.build()
    issues = (*builder.issues, *check_expected(spec.outputs, signature, read))
    return issues or request


@dataclass
class _RequestBuilder:
    model: str
    spec: SmokeSpec
    signature: ModelSignature
    read: ReadFile
    issues: list[SmokeIssue] = field(default_factory=list)

    def build(self) -> InferRequest:
        self._check_names("inputs", self.spec.inputs)
        self._check_names("shapes", self.spec.shapes)
        self._check_options()
        shapes = {name: shape for name, tensor in self._needed().items() if (shape := self._shape(tensor)) is not None}
        batch = self._batch(shapes)
        inputs = [self._input(self.signature.inputs[name], shape, batch) for name, shape in shapes.items()]
        return InferRequest(self.model, self.signature, tuple(tensor for tensor in inputs if tensor), batch)

    def _needed(self) -> Mapping[str, TensorSpec]:
        """The required inputs, and the optional ones that are stated."""
        stated = {*self.spec.inputs, *self.spec.shapes}
        return {name: t for name, t in self.signature.inputs.items() if name in stated or not t.optional}

    def _check_names(self, section: str, stated: Mapping[str, object]) -> None:
        for name in stated:
            if name not in self.signature.inputs:
                near = get_close_matches(name, [*self.signature.inputs, *self.signature.unsupported], n=1)
                inputs = ", ".join(self.signature.inputs) or "none"
                fix = f"Did you mean {near[0]}?" if near else f"Its inputs are: {inputs}."
                self._add((section, name), f"{self.model} has no input {name}.", fix)

    def _check_options(self) -> None:
        signature, batch = self.signature, self.spec.batch
        for name in signature.unsupported:
            if signature.inputs or signature.outputs:
                detail = f"{name} of {self.model} has a datatype that inference requests do not support."
                self._add((), detail, "Change its data_type in the config.")
        if signature.decoupled and self.spec.protocol == "http":
            detail = f"{self.model} is decoupled: it answers over a stream, which HTTP does not have."
            self._add(("protocol",), detail, "Set protocol: grpc, and install gpuplan[grpc].")
        if signature.decoupled and self.spec.shared_memory != "none":
            detail = f"{self.model} is decoupled: its responses would overwrite one another in shared memory."
            self._add(("shared_memory",), detail, "Set shared_memory: none.")
        if batch is not None and not signature.max_batch:
            self._add(("batch",), f"{self.model} does not batch (max_batch_size is 0).", "Remove batch.")
        elif batch is not None and batch > signature.max_batch:
            detail = f"batch is {batch}, but {self.model} takes at most {signature.max_batch}."
            self._add(("batch",), detail, "Lower batch, or raise max_batch_size.")

    def _shape(self, tensor: TensorSpec) -> Shape | None:
        """The stated shape, with or without its batch; variable sizes that are not stated are 1."""
        stated, value = self.spec.shapes.get(tensor.name), self.spec.inputs.get(tensor.name)
        try:
            shape = shape_of(value, self.read)
        except InvalidTensor as error:
            self._reject_input(tensor, str(error))
            return None
        except Problem as problem:
            self.issues.extend(_file_issues(("inputs", tensor.name), problem))
            return None
        shape = shape if stated is None else stated
        if shape is None:
            return tuple(1 if size == -1 else size for size in tensor.dims)
        if self.signature.accepts(shape, tensor):
            return shape
        declared = format_shape(self.signature.request_shape(tensor, -1))
        detail = f"{tensor.name} cannot have the shape {format_shape(shape)}: {self.model} takes {declared}."
        self._add(("shapes" if stated is not None else "inputs", tensor.name), detail, "-1 stands for any size.")
        elements = flatten(value) if isinstance(value, list | tuple) else []
        if why := next(filter(None, map(tensor.datatype.reject, elements)), ""):
            self._reject_input(tensor, why, _advice(value, tensor))
        return None

    def _batch(self, shapes: Mapping[str, Shape]) -> int:
        if not self.signature.max_batch:
            return 1
        batched = {n: s[0] for n, s in shapes.items() if len(s) > len(self.signature.inputs[n].dims)}
        sizes = batched if self.spec.batch is None else {**batched, "batch": self.spec.batch}
        batch = next(iter(sizes.values()), 1)
        first = next(iter(batched), "")
        section = "shapes" if first in self.spec.shapes else "inputs"
        if len({*sizes.values()}) > 1:
            stated = ", ".join(f"{name}: {size}" for name, size in sizes.items())
            detail = f"All inputs of one request need the same batch size; stated are {stated}."
            self._add((section, first), detail, "Use one batch size.")
        if batched and self.spec.batch is None and not 1 <= batch <= self.signature.max_batch:
            detail = f"{first} has a batch of {batch}, but {self.model} takes 1 to {self.signature.max_batch}."
            self._add((section, first), detail)
        return batch

    def _input(self, tensor: TensorSpec, shape: Shape, batch: int) -> InputTensor | None:
        value = self.spec.inputs.get(tensor.name)
        full = shape if len(shape) > len(tensor.dims) or not self.signature.max_batch else (batch, *shape)
        if prod(full) > MAX_ELEMENTS:
            detail = f"{tensor.name} {format_shape(full)} has more than {MAX_ELEMENTS:,} elements."
            self._add(("shapes", tensor.name), detail, "State a smaller shape.")
            return None
        if isinstance(value, list | tuple) and len(full) > len(shape):
            value = [value] * full[0]  # stated for one of the batch
        try:
            array = to_array(value, tensor.datatype, full, f"{self.model}/{tensor.name}", self.read)
        except InvalidTensor as error:
            self._reject_input(tensor, str(error), _advice(self.spec.inputs.get(tensor.name), tensor))
            return None
        except Problem as problem:
            self.issues.extend(_file_issues(("inputs", tensor.name), problem))
            return None
        return InputTensor(tensor, full, array)

    def _reject_input(self, tensor: TensorSpec, why: str, fix: str = "") -> None:
        self._add(("inputs", tensor.name), f"The value of input {tensor.name} is invalid: {why}.", fix)

    def _add(self, path: tuple[str | int, ...], detail: str, fix: str = "") -> None:
        self.issues.append(SmokeIssue(path, detail, fix))


def _advice(value: Json, tensor: TensorSpec) -> str:
    if isinstance(value, str):
        return "Use zeros, ones, random, a list of values, or { file: PATH }."
    return "Quote the text." if tensor.datatype.name == "BYTES" else ""


def _file_issues(path: Sequence[str], problem: Problem) -> Iterator[SmokeIssue]:
    return (SmokeIssue((*path, "file"), issue.detail, issue.fix) for issue in problem.diagnostics)


@dataclass(frozen=True)
class Slot:
    """Where one tensor lies in a shared memory region, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True)
class SharedMemoryLayout:
    """The region of one request: inputs, then outputs of fixed size. Other outputs come with the response."""

    inputs: Mapping[str, Slot]
    outputs: Mapping[str, Slot]
    content: bytes
    """The region before the request: the inputs, and zeros for the outputs."""


def layout_of(request: InferRequest) -> SharedMemoryLayout:
    """The region that a request needs; never empty, since an empty region cannot be mapped.

    Raises:
        Problem: it would be larger than `MAX_REGION`.
    """
    content = bytearray()
    inputs: dict[str, Slot] = {}
    for given in request.inputs:
        raw = to_bytes(given.tensor.datatype, given.array)
        inputs[given.tensor.name] = Slot(len(content), len(raw))
        content += raw + bytes(-len(raw) % ALIGNMENT)
    outputs: dict[str, Slot] = {}
    for name, tensor in request.signature.outputs.items():
        shape = request.signature.request_shape(tensor, request.batch)
        if tensor.datatype.size and -1 not in shape:
            outputs[name] = slot = Slot(len(content), tensor.datatype.size * prod(shape))
            if len(content) + slot.size > MAX_REGION:
                raise Problem(
                    Diagnostic(
                        "The request is too large for shared memory",
                        f"Output {name} of {request.model} has {slot.size:,} bytes; the limit is "
                        f"{MAX_REGION >> 20} MiB for all tensors.",
                        "Set shared_memory: none, or use a smaller batch.",
                    )
                )
            content += bytes(slot.size + -slot.size % ALIGNMENT)
    return SharedMemoryLayout(inputs, outputs, bytes(content) or bytes(ALIGNMENT))


def with_outputs(
    response: InferResponse, layout: SharedMemoryLayout, request: InferRequest, region: bytes
) -> InferResponse:
    """The response with the outputs that the server left in the region; raises ValueError if their sizes differ."""
    outputs = dict(response)
    for name, slot in layout.outputs.items():
        output, datatype = outputs.get(name), request.signature.outputs[name].datatype
        if output is not None and output.array is None and output.datatype == datatype.name:
            raw = region[slot.offset : slot.offset + slot.size]
            outputs[name] = replace(output, array=from_bytes(datatype, raw, output.shape))
    return outputs
