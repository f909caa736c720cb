"""Specs and step payloads as JSON, for the saved change set and the node's record, and back as dataclasses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from gpuplan.types.value import JsonObject

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Value = TypeVar("Value")
_ADAPTERS: dict[object, TypeAdapter[Any]] = {}


def encode(value: object) -> JsonObject:
    """A dataclass as a JSON object by field names, without what has its default value."""
    encoded: JsonObject = _adapter(type(value)).dump_python(value, mode="json", exclude_defaults=True)
    return encoded


def decode(form: type[Value], value: JsonObject) -> Value:
    """The dataclass of an encoded object; raises pydantic.ValidationError if it does not have this form."""
    decoded: Value = _adapter(form).validate_python(value)
    return decoded


def _adapter(form: type[object]) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    if form not in _ADAPTERS:
        _ADAPTERS[form] = TypeAdapter(form)
    return _ADAPTERS[form]
