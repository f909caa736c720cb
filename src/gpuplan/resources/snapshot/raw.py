"""Raw JSON of an engine or server, where null, absent and what has another form all stand for empty."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from gpuplan.types.value import Json, JsonObject

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


def whole(value: Json) -> int:
    """The value where it is a number that an engine can mean, else 0."""
    if isinstance(value, float) and not math.isfinite(value):
        return 0
    return int(value) if isinstance(value, int | float) and -_LARGEST <= value < _LARGEST else 0
