"""From what is asked and the form of a model to one request that fits, or to everything that does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import prod
from typing import TYPE_CHECKING

from gpuplan.resources.model.smoke.asked import Asked
from gpuplan.resources.model.smoke.expected import faults_of as faults_of_outputs
from gpuplan.resources.model.smoke.fault import Fault, Unfit
from gpuplan.resources.model.smoke.form import Form, Shape, Tensor, fits, words
from gpuplan.resources.model.smoke.values import ReadFile, elements, leaves, own_shape
from gpuplan.types.diagnostic import Problem
from gpuplan.types.value import Json

if TYPE_CHECKING:
    from gpuplan.resources.model.smoke.datatypes import Array

LARGEST = 1 << 28
"""Elements of one generated tensor; what is more is a slip of the pen."""


@dataclass(frozen=True)
class Input:
    """One input of a request."""

    tensor: Tensor
    shape: Shape
    array: Array = field(compare=False)


@dataclass(frozen=True)
class Request:
    """One inference."""

    model: str
    form: Form
    inputs: tuple[Input, ...]
    batch: int
    """1 where the model has no batch dimension."""


def request_for(model: str, asked: Asked, form: Form, read: ReadFile) -> Request | tuple[Fault, ...]:
    """The request, or all that is wrong with what is stated."""
    made = _Making(model, asked, form, read)
    request = made.request()
    faults = (*made.faults, *faults_of_outputs(asked, form, read))
    return faults or request


@dataclass
class _Making:
    model: str
    asked: Asked
    form: Form
    read: ReadFile
    faults: list[Fault] = field(default_factory=list)

    def request(self) -> Request:
        self._unknown("inputs", self.asked.inputs)
        self._unknown("shapes", self.asked.shapes)
        self._fitting_ways()
        shapes = {name: self._shape(tensor) for name, tensor in self._wanted().items()}
        batch = self._batch({name: shape for name, shape in shapes.items() if shape is not None})
        made = [
            self._input(self.form.inputs[name], shape, batch) for name, shape in shapes.items() if shape is not None
        ]
        return Request(self.model, self.form, tuple(each for each in made if each is not None), batch)

    def _wanted(self) -> Mapping[str, Tensor]:
        """The inputs that the model needs, and the optional ones that are stated."""
        stated = {*self.asked.inputs, *self.asked.shapes}
        return {name: each for name, each in self.form.inputs.items() if name in stated or not each.optional}

    def _unknown(self, section: str, stated: Mapping[str, object]) -> None:
        known = [*self.form.inputs, *self.form.odd]
        for name in stated:
            if name not in self.form.inputs:
                near = get_close_matches(name, known, n=1)
                there = ", ".join(self.form.inputs) or "none"
                fix = f"Did you mean {near[0]}?" if near else f"Its inputs are: {there}."
                self._say((section, name), f"{self.model} has no input {name}.", fix)

    def _fitting_ways(self) -> None:
        for name in self.form.odd:
            if self.form.inputs or self.form.outputs:
                self._say(
                    (), f"{name} of {self.model} has a datatype that no request can hold.", "State it in its config."
                )
        if self.form.decoupled and self.asked.protocol == "http":
            detail = f"{self.model} is decoupled: it answers over a stream, and HTTP has none."
            self._say(("protocol",), detail, "Write protocol: grpc, and install gpuplan[grpc].")
        if self.form.decoupled and self.asked.shared_memory != "none":
            detail = f"{self.model} is decoupled: its answers would overwrite one another in shared memory."
            self._say(("shared_memory",), detail, "Write shared_memory: none.")
        batch = self.asked.batch
        if batch is not None and not self.form.max_batch:
            self._say(("batch",), f"{self.model} has max_batch_size 0: its tensors have no batch.", "Leave batch out.")
        elif batch is not None and batch > self.form.max_batch:
            detail = f"{self.model} takes a batch of {self.form.max_batch} at most, and batch is {batch}."
            self._say(("batch",), detail, "Ask for less, or raise max_batch_size.")

    def _shape(self, tensor: Tensor) -> Shape | None:
        """The shape that is stated, with or without its batch; what is variable and not stated is 1."""
        stated = self.asked.shapes.get(tensor.name)
        try:
            own = own_shape(self.asked.inputs.get(tensor.name), self.read)
        except Unfit as unfit:
            self._say(("inputs", tensor.name), f"The input {tensor.name} of {self.model} does not fit: {unfit}.")
            return None
        except Problem as problem:
            self.faults.extend(_of_file(("inputs", tensor.name), problem))
            return None
        shape = stated if stated is not None else own
        path = ("shapes" if stated is not None else "inputs", tensor.name)
        if shape is None:
            return tuple(1 if size == -1 else size for size in tensor.dims)
        if fits(shape, tensor.dims) or (self.form.max_batch and fits(shape, (-1, *tensor.dims))):
            return shape
        allowed = words(self.form.full(tensor, -1))
        detail = f"{words(shape)} is no shape of {tensor.name}; {self.model} takes {allowed}."
        self._say(path, detail, "-1 is any size.")
        self._elements(tensor)
        return None

    def _elements(self, tensor: Tensor) -> None:
        """What the datatype cannot hold, of a value whose shape is wrong as well."""
        value = self.asked.inputs.get(tensor.name)
        stated = leaves(value) if isinstance(value, list | tuple) else []
        if why := next(filter(None, map(tensor.datatype.takes, stated)), ""):
            detail = f"The input {tensor.name} of {self.model} does not fit: {why}."
            self._say(("inputs", tensor.name), detail, _advice(value, tensor))

    def _batch(self, shapes: Mapping[str, Shape]) -> int:
        if not self.form.max_batch:
            return 1
        leading = {n: s[0] for n, s in shapes.items() if len(s) > len(self.form.inputs[n].dims)}
        stated = dict(leading)
        if self.asked.batch is not None:
            stated["batch"] = self.asked.batch
        if len({*stated.values()}) > 1:
            said = ", ".join(f"{name}: {size}" for name, size in stated.items())
            detail = f"All inputs of one request have the same batch, and these differ: {said}."
            first = next(iter(leading))
            self._say(("shapes" if first in self.asked.shapes else "inputs", first), detail, "Let them agree.")
        batch = next(iter(stated.values()), 1)
        if leading and self.asked.batch is None and not 1 <= batch <= self.form.max_batch:
            first = next(iter(leading))
            detail = f"{self.model} takes a batch of 1 to {self.form.max_batch}, and {first} has one of {batch}."
            self._say(("shapes" if first in self.asked.shapes else "inputs", first), detail)
        return batch

    def _input(self, tensor: Tensor, shape: Shape, batch: int) -> Input | None:
        path = ("inputs", tensor.name)
        full = shape if len(shape) > len(tensor.dims) or not self.form.max_batch else (batch, *shape)
        if prod(full) > LARGEST:
            self._say(("shapes", tensor.name), f"{words(full)} is more than {LARGEST:,} elements.", "Ask for less.")
            return None
        value = self.asked.inputs.get(tensor.name)
        try:
            array = elements(
                _repeated(value, full, shape), tensor.datatype, full, f"{self.model}/{tensor.name}", self.read
            )
        except Unfit as unfit:
            detail = f"The input {tensor.name} of {self.model} does not fit: {unfit}."
            self._say(path, detail, _advice(value, tensor))
            return None
        except Problem as problem:
            self.faults.extend(_of_file(path, problem))
            return None
        return Input(tensor, full, array)

    def _say(self, path: tuple[str | int, ...], detail: str, fix: str = "") -> None:
        self.faults.append(Fault(path, detail, fix))


def _repeated(value: Json, full: Shape, shape: Shape) -> Json:
    """A list that is stated for one of a batch, once for each."""
    if isinstance(value, list | tuple) and len(full) > len(shape):
        return [value] * full[0]
    return value


def _advice(value: Json, tensor: Tensor) -> str:
    if isinstance(value, str):
        return "Write zeros, ones, random, a list of values, or { file: PATH }."
    if tensor.datatype.name == "BYTES":
        return "Write texts in quotes."
    return ""


def _of_file(path: Sequence[str], problem: Problem) -> Iterator[Fault]:
    return (Fault((*path, "file"), each.detail, each.fix) for each in problem.diagnostics)
