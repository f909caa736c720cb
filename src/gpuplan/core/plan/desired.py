"""Desire: every room's wish for one node, by kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from gpuplan.planfile.schema import PlanFile
from gpuplan.resources.kinds import KINDS
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem, Severity
from gpuplan.types.inventory import Host
from gpuplan.types.resource import Desired, Record
from gpuplan.types.value import Json, as_object, to_json


@dataclass(frozen=True)
class DesiredState:
    """What the plan file implies for one host, and what the rooms warn of."""

    desired: tuple[Desired, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()


def desired_state(plan: PlanFile, hosts: Sequence[Host]) -> Mapping[str, DesiredState]:
    """What the plan file implies for each host, by host name.

    Raises:
        Problem: with every fault of every room on every host, each told once.
    """
    wishes: dict[str, DesiredState] = {}
    faults: dict[Diagnostic, None] = {}
    for host in hosts:
        found: list[Desired] = []
        told: list[Diagnostic] = []
        for room in KINDS:
            desired, diagnostics = room.desired(plan, host)
            found.extend(desired)
            told.extend(diagnostics)
        faults.update(dict.fromkeys(told))
        wishes[host.name] = DesiredState(tuple(found), tuple(told))
    if any(fault.severity is Severity.ERROR for fault in faults):
        raise Problem(tuple(faults))
    return wishes


def registry_images(wishes: Mapping[str, DesiredState]) -> Mapping[str, tuple[str, ...]]:
    """Host → images whose registries the plan file has asked at each plan and drift check."""
    return {
        host: tuple(dict.fromkeys(name for room in KINDS for name in room.registry_images(wish.desired)))
        for host, wish in wishes.items()
    }


def as_recorded(record: Record) -> tuple[Desired, ...]:
    """What was last applied, as if it were desired: the other side of a drift check."""
    return tuple(Desired(address, recorded.spec, recorded.needs) for address, recorded in record.resources.items())


def secret_references(desired: Iterable[Desired]) -> frozenset[str]:
    """Every secret reference in the specs, as the plan file writes it."""
    return frozenset(reference for each in desired for reference in _references(to_json(each.spec)))


def _references(value: Json) -> Iterator[str]:
    if isinstance(value, Mapping):
        if set(value) == {"secret"} and isinstance(value["secret"], str):
            yield value["secret"]
        else:
            for inner in value.values():
                yield from _references(inner)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            yield from _references(inner)


# Decodes what a saved change set and a node's record keep as JSON into the dataclasses of the kinds.

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
