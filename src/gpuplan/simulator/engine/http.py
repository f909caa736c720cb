"""Requests and responses of the engine's API, and its errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from gpuplan.simulator.document import mapping
from gpuplan.simulator.state import Document


class EngineError(Exception):
    """The engine refuses: HTTP status and the message of its body."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.message = message
        super().__init__(message)


@dataclass(frozen=True)
class Request:
    """One request, its query decoded."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | BinaryIO = b""

    def flag(self, name: str) -> bool:
        """A boolean parameter, which clients write in several ways."""
        return self.query.get(name, "").lower() in ("1", "true", "yes")

    def json(self) -> Document:
        """The body as a JSON object; an empty one where there is none."""
        raw = self.body if isinstance(self.body, bytes) else self.body.read()
        if not raw:
            return {}
        try:
            return mapping(json.loads(raw))
        except ValueError as error:
            raise EngineError(400, f"invalid JSON: {error}") from None


@dataclass(frozen=True)
class Response:
    """One response. `chunks` is a stream that the client reads piece by piece, `frames` a hijacked connection."""

    status: int = 200
    body: bytes = b""
    kind: str = "application/json"
    chunks: tuple[bytes, ...] | None = None
    frames: bytes | None = None
    awaited: int = 0
    """Bytes that the client writes to a hijacked connection first; `then` makes the frames of them."""
    then: Callable[[bytes], bytes] | None = None


def answer(value: object, status: int = 200) -> Response:
    """A JSON response."""
    return Response(status, json.dumps(value).encode() + b"\n")


def nothing(status: int = 204) -> Response:
    """A response without a body."""
    return Response(status, kind="")


def stream(lines: Iterable[Document]) -> Response:
    """A JSON line for each piece of progress."""
    return Response(chunks=tuple(json.dumps(line).encode() + b"\r\n" for line in lines))


def frame(channel: int, text: str) -> bytes:
    """One frame of multiplexed output, of text."""
    return frame_of(channel, text.encode())


def frame_of(channel: int, data: bytes) -> bytes:
    """One frame of multiplexed output (Docker Engine API, “Attach to a container”, stream format)."""
    return bytes([channel, 0, 0, 0]) + len(data).to_bytes(4, "big") + data
