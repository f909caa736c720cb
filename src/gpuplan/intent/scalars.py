"""The scalars of a plan file as types: names that may become paths, numbers, sizes, durations."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from gpuplan.intent.quantity import DURATION, POWER, SIZE, parse_duration, parse_power, parse_size, refuse_boolean

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
Milliwatts = Annotated[
    int,
    Field(ge=1),
    BeforeValidator(parse_power),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": POWER.pattern}]}),
]
"""Milliwatts, written as a number of watts or as 350W, 0.7kW."""
ServiceName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9@_.:-]{0,127}$")]
"""A service of the node's system, with or without `.service`."""
