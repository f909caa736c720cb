"""Decodes what a saved change set and a node's record keep as JSON into the dataclasses of the kinds."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from gpuplan.resources.kinds import KINDS
from gpuplan.types.address import Address
from gpuplan.types.value import Json, as_object

_KINDS = {name: kind for kind in KINDS for name in (kind.name, *kind.companion_kinds)}

_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}
"""Building an adapter takes milliseconds, and a fleet has thousands of specs."""


def decode_spec(address: Address, value: Json) -> Any:
    """The spec of a resource.

    Raises:
        ValueError, TypeError: the JSON is not a spec of this kind.
    """
    kind = _KINDS.get(address.kind)
    if kind is None or kind.spec_type is None:
        return as_object(value)
    return _adapter(kind.spec_type).validate_python(value)


def decode_payload(address: Address, value: Json) -> Any:
    """The payload of a step; its `type` names one of the kind's `payload_types`.

    Raises:
        KeyError, ValueError, TypeError: the JSON is not a payload of this kind.
    """
    kind = _KINDS.get(address.kind)
    if value is None or kind is None or not kind.payload_types:
        return value
    payload = dict(as_object(value))
    types = {payload_type.__name__: payload_type for payload_type in kind.payload_types}
    return _adapter(types[str(payload.pop("type"))]).validate_python(payload)


def _adapter(value_type: type[Any]) -> TypeAdapter[Any]:
    if value_type not in _ADAPTERS:
        _ADAPTERS[value_type] = TypeAdapter(value_type)
    return _ADAPTERS[value_type]
