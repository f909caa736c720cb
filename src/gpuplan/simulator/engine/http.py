"""Requests and responses of the engine's API, and its errors."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from gpuplan.simulator.state import Document, NodeState, mapping, text
from gpuplan.simulator.store import Machine, StateStore


class EngineError(Exception):
    """The engine refuses: HTTP status and the message of its body."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.message = message
        super().__init__(message)


@dataclass(frozen=True)
class EngineRequest:
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
class EngineResponse:
    """One response. `chunks` is a stream that the client reads piece by piece, `frames` a hijacked connection."""

    status: int = 200
    body: bytes = b""
    kind: str = "application/json"
    chunks: tuple[bytes, ...] | None = None
    frames: bytes | None = None
    awaited: int = 0
    """Bytes that the client writes to a hijacked connection first; `then` makes the frames of them."""
    then: Callable[[bytes], bytes] | None = None


def answer(value: object, status: int = 200) -> EngineResponse:
    """A JSON response."""
    return EngineResponse(status, json.dumps(value).encode() + b"\n")


def nothing(status: int = 204) -> EngineResponse:
    """A response without a body."""
    return EngineResponse(status, kind="")


def stream(lines: Iterable[Document]) -> EngineResponse:
    """A JSON line for each piece of progress."""
    return EngineResponse(chunks=tuple(json.dumps(line).encode() + b"\r\n" for line in lines))


def frame(channel: int, text: str) -> bytes:
    """One frame of multiplexed output, of text."""
    return frame_of(channel, text.encode())


def frame_of(channel: int, data: bytes) -> bytes:
    """One frame of multiplexed output (Docker Engine API, “Attach to a container”, stream format)."""
    return bytes([channel, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


# What every handler of the engine's API works on, and how it reads or changes it.


@dataclass(frozen=True)
class Daemon:
    """The engine of one node. `closing` ends requests that wait for something to happen."""

    store: StateStore
    machine: Machine
    closing: threading.Event


Handler = Callable[[Daemon, EngineRequest, str], EngineResponse]
"""Answers a request; the text is what the path names, such as a container."""
Route = tuple[str, re.Pattern[str], Handler]


def route(method: str, path: str, handler: Handler) -> Route:
    """A handler for requests of this method whose whole path matches."""
    return method, re.compile(path), handler


def reading(act: Callable[[NodeState, EngineRequest, str], object]) -> Handler:
    """A handler that reads the state and answers JSON."""
    return lambda daemon, request, name: answer(act(daemon.store.read(), request, name))


def changing(act: Callable[[Daemon, NodeState, EngineRequest, str], EngineResponse]) -> Handler:
    """A handler that changes the state; what it raises undoes the change."""

    def handle(daemon: Daemon, request: EngineRequest, name: str) -> EngineResponse:
        with daemon.store.write() as state:
            return act(daemon, state, request, name)

    return handle


# --- Docker Engine releases and their API versions (source: version history of the Engine API documentation) ---

PLAIN = "20.10.24"
"""What a node has whose inventory names none."""
_APIS = {"20.10": ("1.41", "1.12"), "23.0": ("1.42", "1.12"), "24.0": ("1.43", "1.12"), "25.0": ("1.44", "1.24"),
         "26.0": ("1.45", "1.24"), "26.1": ("1.45", "1.24"), "27.0": ("1.46", "1.24"), "27.5": ("1.47", "1.24"),
         "28.0": ("1.48", "1.24"), "28.5": ("1.51", "1.24"), "29.0": ("1.52", "1.44")}  # fmt: skip
KNOWN = tuple(_APIS)
_PATH = re.compile(r"^/v(\d+)\.(\d+)(/.*)$")
_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")


@dataclass(frozen=True)
class Release:
    """One release: its version, the newest API that it speaks, and the oldest."""

    version: str
    api: str
    least: str

    def asked(self, path: str) -> tuple[int, int]:
        """The API version that a request is answered in: the one in its path, or the newest."""
        match = _PATH.match(path)
        return _number(f"{match[1]}.{match[2]}" if match else self.api)

    def plain(self, path: str) -> str:
        """The path of a request without its version.

        Raises:
            EngineError: the version is newer or older than what this release speaks, in the engine's words.
        """
        asked = _PATH.match(path)
        if asked is None:
            return path
        version = f"{asked[1]}.{asked[2]}"
        if _number(version) > _number(self.api):
            message = f"client version {version} is too new. Maximum supported API version is {self.api}"
            raise EngineError(400, message)
        if _number(version) < _number(self.least):
            message = f"client version {version} is too old. Minimum supported API version is {self.least}, "
            raise EngineError(400, f"{message}please upgrade your client to a newer version")
        return asked[3]


def known(version: str) -> bool:
    """True if a simulated node can have this version."""
    return bool(_VERSION.fullmatch(version)) and ".".join(version.split(".")[:2]) in _APIS


def release_of(hardware: Document) -> Release:
    """The release that the inventory gives a node: ``engine: "29.0"``."""
    version = text(mapping(hardware).get("engine")) or PLAIN
    return Release(version if version.count(".") > 1 else f"{version}.0", *_APIS[".".join(version.split(".")[:2])])


def _number(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)
