"""What a model's `smoke` section asks: inputs, expected outputs, and how the request is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, BinaryIO, Literal, TypeAlias

from gpuplan.planfile.schema import ExpectedOutput, InputFile, ModelSection, SmokeSection
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.value import Json

SmokeProtocol: TypeAlias = Literal["", "http", "grpc"]
"""Empty = gRPC if the model needs it, else HTTP."""
SharedMemoryKind: TypeAlias = Literal["none", "system", "cuda"]
INSTALL_GRPC = "Install it on this machine: pip install 'gpuplan[grpc]'"
TIMEOUT = 30.0
"""Seconds for one response if none is stated."""
MAX_FILE = 1 << 28
"""Bytes of a file that fills an input or gives an expected output."""


@dataclass(frozen=True)
class SmokeSpec:
    """One smoke test of a model; what is not stated is generated from the model's config."""

    inputs: Mapping[str, Any] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    batch: int | None = None
    protocol: SmokeProtocol = ""
    shared_memory: SharedMemoryKind = "none"
    timeout: float = TIMEOUT
    version: int | None = None
    """The version that is asked; None = all that are served."""


def smoke_of(model: ModelSection) -> SmokeSpec | None:
    """The smoke test of a model; None if it has none."""
    stated = model.smoke
    if not isinstance(stated, SmokeSection):
        return SmokeSpec() if stated else None
    return SmokeSpec(
        inputs={name: _to_json(value) for name, value in stated.inputs.items()},
        shapes=dict(stated.shapes),
        outputs={name: _to_json(value) for name, value in stated.outputs.items()},
        batch=stated.batch,
        protocol=protocol_of(stated.protocol or ""),
        shared_memory=stated.shared_memory,
        timeout=stated.timeout,
        version=stated.version,
    )


def read_limited(file: BinaryIO, path: str) -> bytes:
    """The content of a file of a smoke section; raises Problem if it is too large."""
    content = file.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        detail = f"{path} is larger than {MAX_FILE >> 20} MiB."
        raise Problem(Diagnostic("A file of the smoke section is too large", detail, "Use a smaller file."))
    return content


def has_grpc() -> bool:
    """Whether the gRPC library is installed on this machine."""
    return find_spec("grpc") is not None


def protocol_of(text: str) -> SmokeProtocol:
    """The protocol of this name; raises ValueError for any other."""
    match text:
        case "" | "http" | "grpc":
            return text
        case _:
            raise ValueError(f"unknown protocol: {text!r}")


def memory_of(text: str) -> SharedMemoryKind:
    """The kind of shared memory of this name; raises ValueError for any other."""
    match text:
        case "none" | "system" | "cuda":
            return text
        case _:
            raise ValueError(f"unknown shared memory: {text!r}")


def _to_json(value: object) -> Json:
    """A value of the plan file as JSON."""
    match value:
        case InputFile():
            return {"file": value.file}
        case ExpectedOutput():
            stated = {"values": value.values, "file": value.file, "tolerance": value.tolerance}
            return {**{key: item for key, item in stated.items() if item is not None}, "finite": value.finite}
        case str() | int() | float() | bool() | None:
            return value
        case Mapping():
            return {str(key): _to_json(item) for key, item in value.items()}
        case list() | tuple():
            return [_to_json(item) for item in value]
        case _:
            raise TypeError(f"not JSON: {type(value).__name__}")
