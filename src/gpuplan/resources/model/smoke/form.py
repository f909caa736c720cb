"""What a model takes and gives, read from its config as the plan renders it or as its server tells it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuplan.resources.model.smoke.datatypes import Datatype, of_config
from gpuplan.types.value import Json, JsonObject

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """One input or output; -1 in `dims` is any size."""

    name: str
    datatype: Datatype
    dims: Shape
    optional: bool = False


@dataclass(frozen=True)
class Form:
    """What a model takes and gives."""

    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    max_batch: int = 0
    """0 = its tensors have no batch dimension."""
    sequence: str = ""
    """How a sequence is numbered: ``number`` or ``text``; empty where the model serves single requests."""
    decoupled: bool = False
    """It answers a request with any number of responses."""
    odd: tuple[str, ...] = ()
    """Tensors of a datatype that no request can hold."""

    def full(self, tensor: Tensor, batch: int) -> Shape:
        """The shape of a tensor in a request, with its batch dimension where it has one; -1 stays."""
        return (batch, *tensor.dims) if self.max_batch else tensor.dims


def form_of(config: JsonObject) -> Form:
    """The form that a config states."""
    inputs, odd_inputs = _tensors(config, "input")
    outputs, odd_outputs = _tensors(config, "output")
    largest = config.get("max_batch_size")
    policy = _mapping(config.get("model_transaction_policy"))
    return Form(
        inputs,
        outputs,
        largest if isinstance(largest, int) and largest > 0 else 0,
        _sequence(config),
        policy.get("decoupled") is True,
        (*odd_inputs, *odd_outputs),
    )


def fits(shape: Shape, dims: Shape) -> bool:
    """True where a shape is one that `dims` allow."""
    return len(shape) == len(dims) and all(wanted in (-1, found) for found, wanted in zip(shape, dims, strict=True))


def words(shape: Shape) -> str:
    """A shape as people write it: ``[1, 16]``."""
    return f"[{', '.join(map(str, shape))}]"


def _tensors(config: JsonObject, kind: str) -> tuple[Mapping[str, Tensor], tuple[str, ...]]:
    found: dict[str, Tensor] = {}
    odd: list[str] = []
    for stated in _objects(config.get(kind)):
        name, datatype = str(stated.get("name", "")), of_config(str(stated.get("data_type", "")))
        if datatype is None:
            odd.append(name)
        else:
            dims = tuple(each for each in _list(stated.get("dims")) if isinstance(each, int))
            found[name] = Tensor(name, datatype, dims, stated.get("optional") is True)
    return found, tuple(odd)


def _sequence(config: JsonObject) -> str:
    if "sequence_batching" not in config:
        return ""
    for control in _objects(_mapping(config["sequence_batching"]).get("control_input")):
        for each in _objects(control.get("control")):
            if each.get("kind") == "CONTROL_SEQUENCE_CORRID" and each.get("data_type") == "TYPE_STRING":
                return "text"
    return "number"


def _mapping(value: Json) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


def _objects(value: Json) -> Iterator[JsonObject]:
    return (each for each in _list(value) if isinstance(each, Mapping))


def _list(value: Json) -> tuple[Json, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()
