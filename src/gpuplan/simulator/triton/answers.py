"""What a server answers over HTTP, and its errors."""

from __future__ import annotations

import json
from typing import NamedTuple


class Answer(NamedTuple):
    """One HTTP response."""

    status: int
    body: bytes
    head: int | None = None
    """Bytes of JSON before binary tensors (Inference-Header-Content-Length); None where all of it is JSON."""


class Refusal(Exception):
    """A request that the server does not take, with what it answers."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        self.text = text
        super().__init__(text)


def as_error(status: int, text: str) -> Answer:
    """Triton's form of an error."""
    return Answer(status, json.dumps({"error": text}, separators=(",", ":")).encode())


def as_json(value: object) -> Answer:
    """A document."""
    return Answer(200, json.dumps(value, separators=(",", ":")).encode())
