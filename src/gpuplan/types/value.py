"""Plain values that the other nouns are made of: JSON, digests, secrets, and what is known only later."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import BinaryIO, TypeAlias

from gpuplan.types.address import Address

Json: TypeAlias = "str | int | float | bool | None | Sequence[Json] | Mapping[str, Json]"
JsonObject: TypeAlias = Mapping[str, Json]

SENSITIVE = "(sensitive)"
"""What is shown in place of a secret."""


@dataclass(frozen=True)
class KnownAfterApply:
    """A value that exists only after another step, such as the UUID of a slice yet to be created."""

    what: str

    def __str__(self) -> str:
        return f"(known after apply: {self.what})"


class Secret:
    """Text that is never shown: not by str(), repr(), a traceback, or JSON.

    `reference` is how the plan file names it, such as ``env:NGC_API_KEY``; that may be shown.
    """

    __slots__ = ("_text", "reference")

    def __init__(self, reference: str, text: str) -> None:
        self.reference = reference
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the one call that sends it to a node."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({self.reference})"

    __str__ = __repr__


def to_json(value: object) -> Json:
    """The JSON of a typed value: a dataclass becomes an object, an enum its value, an address (or path) its text.

    Raises:
        TypeError: the value is, or contains, a `Secret` or another type without a JSON form.
    """
    match value:
        case Enum():
            result = to_json(value.value)
        case None | str() | int() | float():
            result = value
        case Address() | PurePath():
            result = str(value)
        case Mapping():
            result = {str(key): to_json(item) for key, item in value.items()}
        case set() | frozenset():
            result = sorted((to_json(item) for item in value), key=canonical)
        case list() | tuple():
            result = [to_json(item) for item in value]
        case _ if is_dataclass(value):
            result = {each.name: to_json(getattr(value, each.name)) for each in fields(value)}
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON form")
    return result


def canonical(value: Json) -> str:
    """The one JSON text of a value: keys sorted, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Json) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal (64 characters)."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def keyed_digest(key: str, *texts: str) -> str:
    """HMAC-SHA256 over texts, in hexadecimal, cut to 128 bits: recognises a text given the key."""
    return hmac.new(key.encode(), canonical(list(texts)).encode(), hashlib.sha256).hexdigest()[:32]


def as_object(value: Json) -> JsonObject:
    """The value as an object.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"expected an object, found {type(value).__name__}")
    return value


def as_list(value: Json) -> Sequence[Json]:
    """The value as a list.

    Raises:
        TypeError: it is something else, or a text.
    """
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"expected a list, found {type(value).__name__}")
    return value


# Content: bytes that a node should have, known by their SHA-256, and where they are to be had.


@dataclass(frozen=True)
class Content:
    """Content that is to be brought to a node; it is opened more than once where it must be sent again."""

    sha256: str
    size: int
    open: Callable[[], AbstractContextManager[BinaryIO]]


OnArrived: TypeAlias = Callable[[int], None]
"""Hears of so many further bytes that are on the node, from any thread; below zero where some had to be dropped."""

# Raw JSON of an engine or server, where null, absent and what has another form all stand for empty.

_LARGEST = 1 << 63
"""Engines count in signed 64-bit numbers."""


def mapping(value: Json) -> JsonObject:
    """The value where it is an object, else an empty one: engines write null for empty."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Json) -> Iterator[JsonObject]:
    """The objects of a list; nothing for null."""
    yield from (each for each in sequence(value) if isinstance(each, Mapping))


def sequence(value: Json) -> Sequence[Json]:
    """The value where it is a list, else an empty one."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def texts(value: Json) -> tuple[str, ...]:
    """The items of a list as texts; nothing for null."""
    return tuple(str(each) for each in sequence(value))


def integer(value: Json) -> int:
    """The value where it is a number that an engine can mean, else 0."""
    if isinstance(value, float) and not math.isfinite(value):
        return 0
    return int(value) if isinstance(value, int | float) and -_LARGEST <= value < _LARGEST else 0
