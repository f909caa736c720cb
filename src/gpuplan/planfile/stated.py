"""Sections and scalars of the plan file: what every model of the schema is made of.

Every model refuses unknown keys. What is None or empty was not stated, and what is not stated is left alone.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

from gpuplan.planfile.quantity import DURATION, POWER, SIZE, parse_duration, parse_power, parse_size, refuse_boolean

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


class Stated(BaseModel):
    """A section of the plan file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
