"""Narrow readers of JSON that was not checked by a schema: what is of another type counts as absent."""

from __future__ import annotations

from gpuplan.simulator.state import Document


def mapping(value: object) -> Document:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    """The array, or an empty one."""
    return value if isinstance(value, list) else []


def texts(value: object) -> list[str]:
    """The texts of an array; one text counts as an array of it."""
    if isinstance(value, str):
        return [value]
    return [item for item in items(value) if isinstance(item, str)]


def text(value: object) -> str:
    """The text, or an empty one."""
    return value if isinstance(value, str) else ""


def number(value: object) -> int:
    """The whole number, or 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
