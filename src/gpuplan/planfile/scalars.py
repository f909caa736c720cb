"""Scalars and the base section of the plan file: names, numbers, sizes, durations, power.

Every section refuses unknown keys. None or empty means not stated, and gpuplan leaves alone what is not stated.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

_UNITS = {
    "": 1, "B": 1,
    "K": 1024, "KIB": 1024, "M": 1024**2, "MIB": 1024**2, "G": 1024**3, "GIB": 1024**3, "T": 1024**4, "TIB": 1024**4,
    "KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4,
}  # fmt: skip
SIZE = re.compile(r"^([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([KMGTkmgt]?[Ii]?[Bb]?)$")
POWER = re.compile(r"^([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*(mW|W|kW)?$")
_POWERS = {"mW": 1, "W": 1000, None: 1000, "kW": 1_000_000}
DURATION = re.compile(r"^(?=.)(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)s)?$")


def refuse_boolean(value: object) -> object:
    """The value as it is.

    Raises:
        ValueError: it is true or false, which Python would take for 1 and 0.
    """
    if isinstance(value, bool):
        raise ValueError("is not a whole number")
    return value


def parse_size(value: object) -> object:
    """Bytes of ``64MiB``, ``2.1GiB``, ``500MB`` or a plain number; other types pass for the schema to refuse.

    Raises:
        ValueError: the text is not a size.
    """
    if not isinstance(value, str):
        return refuse_boolean(value)
    match = SIZE.match(value.strip())
    if match is None or match[2].upper() not in _UNITS:
        raise ValueError("is not a size; write a number of bytes, or 64MiB, 2.1GiB, 500MB")
    return round(float(match[1]) * _UNITS[match[2].upper()])


def parse_power(value: object) -> object:
    """Milliwatts of ``350W``, ``0.7kW``, ``350000mW`` or a plain number of watts; other types pass for the schema.

    Raises:
        ValueError: the text is not a power.
    """
    if isinstance(value, int | float):
        value = str(refuse_boolean(value))
    if not isinstance(value, str):
        return value
    match = POWER.match(value.strip())
    if match is None:
        raise ValueError("is not a power; write watts, or 350W, 0.7kW")
    return round(float(match[1]) * _POWERS[match[2]])


def parse_duration(value: object) -> object:
    """Seconds of ``45s``, ``5m``, ``1h30m`` or a plain number; other types pass for the schema to refuse.

    Raises:
        ValueError: the text is not a duration.
    """
    if not isinstance(value, str):
        return refuse_boolean(value)
    match = DURATION.match(value.strip())
    if match is None:
        raise ValueError("is not a duration; write seconds, or 45s, 5m, 1h30m")
    hours, minutes, seconds = match.groups()
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0)


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
"""A name that may become a path, a label or a container name."""
SliceName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
ModelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")]
Whole = Annotated[int, BeforeValidator(refuse_boolean)]
"""A whole number; true is not 1."""
Natural = Annotated[int, Field(ge=0), BeforeValidator(refuse_boolean)]
Port = Annotated[int, Field(ge=1, le=65535), BeforeValidator(refuse_boolean)]
Bytes = Annotated[
    int,
    Field(ge=0),
    BeforeValidator(parse_size),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": SIZE.pattern}]}),
]
"""Bytes, written as a number or as 64MiB, 2.1GiB, 500MB."""
Seconds = Annotated[
    float,
    Field(ge=0),
    BeforeValidator(parse_duration),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": DURATION.pattern}]}),
]
"""Seconds, written as a number or as 45s, 5m, 1h30m."""
Interval = Annotated[
    float,
    Field(ge=0.1),
    BeforeValidator(parse_duration),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0.1}, {"type": "string", "pattern": DURATION.pattern}]}),
]
"""Seconds between two looks, written as other durations."""
Milliwatts = Annotated[
    int,
    Field(ge=1),
    BeforeValidator(parse_power),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": POWER.pattern}]}),
]
"""Milliwatts, written as a number of watts or as 350W, 0.7kW."""
ServiceName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9@_.:-]{0,127}$")]
"""A service of the node's system, with or without `.service`."""
Nodes = str | tuple[str, ...]
"""Node, group, glob, or a list of them."""


class Section(BaseModel):
    """A section of the plan file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
