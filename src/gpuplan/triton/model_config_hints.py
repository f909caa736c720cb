"""What was meant by a name that ModelConfig does not have: the nearest one, or the place where it belongs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from gpuplan.triton import model_config

MEANT: Mapping[str, str] = {
    "TYPE_BYTES": "TYPE_STRING",
    "BYTES": "TYPE_STRING",
    "TYPE_FLOAT": "TYPE_FP32",
    "TYPE_FLOAT16": "TYPE_FP16",
    "TYPE_FLOAT32": "TYPE_FP32",
    "TYPE_FLOAT64": "TYPE_FP64",
    "TYPE_HALF": "TYPE_FP16",
    "TYPE_DOUBLE": "TYPE_FP64",
    "TYPE_BFLOAT16": "TYPE_BF16",
    "TYPE_INT": "TYPE_INT32",
    "TYPE_LONG": "TYPE_INT64",
}
"""Words of other tools for a data type. BYTES is what the protocol calls TYPE_STRING (model_configuration.md)."""


def field_hint(message: str, name: str) -> str:
    """`` (did you mean …?)`` or `` (it belongs in …)`` for a field that a message does not have; else an empty text."""
    if places := _places().get(name):
        return f" (it belongs in {' or '.join(places[:2])})"
    return model_config.nearest(name, model_config.schema_fields(message))


def value_hint(enum: str, name: str) -> str:
    """`` (did you mean …?)`` for a value that an enum does not have, or all that it has where they are few."""
    valid = model_config.values(enum)
    if MEANT.get(name) in valid:
        return f" (did you mean {MEANT[name]}?)"
    if enum == "DataType" and f"TYPE_{name}" in valid:
        return f" (did you mean TYPE_{name}?)"
    few = f" (one of {', '.join(valid)})" if len(valid) <= 8 else ""
    return model_config.nearest(name, valid) or few


@cache
def _places() -> Mapping[str, tuple[str, ...]]:
    """Each field that a part of ModelConfig has → the paths of the parts, the shortest first."""
    found: dict[str, list[str]] = {}
    layer = [("ModelConfig", "")]
    for _ in range(4):
        below: list[tuple[str, str]] = []
        for message, path in layer:
            for name, field in model_config.schema_fields(message).items():
                if path and path not in found.setdefault(name, []):
                    found[name].append(path)
                kind = field["map"][1] if "map" in field else field["type"]
                if model_config.is_message(kind):
                    below.append((kind, f"{path}.{name}" if path else name))
        layer = below
    return {name: tuple(sorted(paths, key=_rarity)) for name, paths in found.items()}


def _rarity(path: str) -> tuple[int, bool]:
    """Shallow places first; those of ragged batches, which hardly anybody writes, last."""
    return path.count("."), path.startswith("batch_")
