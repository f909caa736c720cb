"""The shape of an answer: its keys and the types of its values, without the values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAPS = ("Labels", "Ports", "ExposedPorts", "PortBindings", "Options", "Runtimes", "parameters", "metric_tags",
        "cc_model_filenames", "files", "Volumes", "input_map", "output_map", "IndexConfigs",
        "resources", "remembered", "containers")  # fmt: skip
"""Objects whose keys are data."""


def shape(value: Any, name: str = "") -> Any:
    """The shape of a JSON value; the elements of a list and of a map are merged into one shape."""
    if isinstance(value, Mapping):
        if name in MAPS:
            return {"*": merged([shape(one) for one in value.values()])}
        return {key: shape(one, key) for key, one in sorted(value.items())}
    if isinstance(value, list):
        return [merged([shape(one) for one in value])]
    if value is None:
        return "null"
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def merged(shapes: list[Any]) -> Any:
    """One shape for all: objects key by key, other differences side by side."""
    if shapes and all(isinstance(one, dict) for one in shapes):
        keys = sorted({key for one in shapes for key in one})
        return {key: merged([one[key] for one in shapes if key in one]) for key in keys}
    if shapes and all(isinstance(one, list) for one in shapes):
        return [merged([inner for one in shapes for inner in one if inner is not None])]
    distinct = []
    for one in shapes:
        if one not in distinct:
            distinct.append(one)
    return distinct[0] if len(distinct) == 1 else sorted(distinct, key=str) or None
