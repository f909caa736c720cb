"""What a plan file states of a smoke inference, in types, and in the JSON form that a step carries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Literal, TypeAlias

from gpuplan.types.value import Json, JsonObject, as_list, as_object

Protocol: TypeAlias = Literal["", "http", "grpc"]
"""Empty = HTTP, or gRPC where the model needs it."""
Memory: TypeAlias = Literal["none", "system", "cuda"]
INSTALL = "Install it here: pip install 'gpuplan[grpc]'"
TIMEOUT = 30.0
"""Seconds that one answer may take where nothing else is stated."""


@dataclass(frozen=True)
class Asked:
    """One smoke inference; with nothing stated, everything is generated from the model's own config."""

    inputs: Mapping[str, Json] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    outputs: Mapping[str, Json] = field(default_factory=dict)
    batch: int | None = None
    protocol: Protocol = ""
    shared_memory: Memory = "none"
    timeout: float = TIMEOUT
    version: int | None = None
    """The one version that is asked; None = every wanted one."""

    def json(self) -> JsonObject:
        """The form that a step carries."""
        return {
            "inputs": self.inputs,
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
            "outputs": self.outputs,
            "batch": self.batch,
            "protocol": self.protocol,
            "shared_memory": self.shared_memory,
            "timeout": self.timeout,
            "version": self.version,
        }


def asked_from(value: JsonObject) -> Asked:
    """The types of the JSON form.

    Raises:
        KeyError, TypeError, ValueError: it has another form.
    """
    timeout = value["timeout"]
    if not isinstance(timeout, int | float):
        raise TypeError(f"expected seconds, found {timeout!r}")
    return Asked(
        inputs=as_object(value["inputs"]),
        shapes={name: _whole(as_list(shape)) for name, shape in as_object(value["shapes"]).items()},
        outputs=as_object(value["outputs"]),
        batch=_number(value["batch"]),
        protocol=protocol_of(str(value["protocol"])),
        shared_memory=memory_of(str(value["shared_memory"])),
        timeout=float(timeout),
        version=_number(value["version"]),
    )


def has_grpc() -> bool:
    """True where the library that gRPC takes is installed here."""
    return find_spec("grpc") is not None


def protocol_of(text: str) -> Protocol:
    """The protocol of a name; raises ValueError for any other."""
    match text:
        case "" | "http" | "grpc":
            return text
        case _:
            raise ValueError(f"not a protocol: {text!r}")


def memory_of(text: str) -> Memory:
    """The shared memory of a name; raises ValueError for any other."""
    match text:
        case "none" | "system" | "cuda":
            return text
        case _:
            raise ValueError(f"not a shared memory: {text!r}")


def _whole(values: object) -> tuple[int, ...]:
    return tuple(each for each in values if isinstance(each, int)) if isinstance(values, list | tuple) else ()


def _number(value: Json) -> int | None:
    return value if isinstance(value, int) else None
