"""The desired state of each node: from the plan file, from the node's record, or from a saved change set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuplan.planfile.schema import PlanFile
from gpuplan.resources.kinds import KINDS
from gpuplan.resources.typed import decode
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem, Severity
from gpuplan.types.inventory import Host
from gpuplan.types.resource import Desired, Record
from gpuplan.types.value import Json, as_object, to_json

_KINDS = {name: kind for kind in KINDS for name in (kind.name, *kind.companion_kinds)}


@dataclass(frozen=True)
class DesiredState:
    """The desired resources of one host, with the kinds' warnings about them."""

    desired: tuple[Desired, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()


def desired_state(plan: PlanFile, hosts: Sequence[Host]) -> Mapping[str, DesiredState]:
    """The desired state of each host by the plan file, by host name.

    Raises:
        Problem: with all errors of all kinds and hosts, without repetitions.
    """
    states: dict[str, DesiredState] = {}
    diagnostics: dict[Diagnostic, None] = {}
    for host in hosts:
        parts = [kind.desired(plan, host) for kind in KINDS]
        desired = tuple(resource for resources, _ in parts for resource in resources)
        issues = tuple(issue for _, kind_issues in parts for issue in kind_issues)
        diagnostics.update(dict.fromkeys(issues))
        states[host.name] = DesiredState(desired, issues)
    if any(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics):
        raise Problem(tuple(diagnostics))
    return states


def registry_images(states: Mapping[str, DesiredState]) -> Mapping[str, tuple[str, ...]]:
    """Host name → images to look up in their registries at each plan and drift check."""
    return {
        host: tuple(dict.fromkeys(image for kind in KINDS for image in kind.registry_images(state.desired)))
        for host, state in states.items()
    }


def as_recorded(record: Record) -> tuple[Desired, ...]:
    """What was last applied, as desired state."""
    return tuple(Desired(address, recorded.spec, recorded.needs) for address, recorded in record.resources.items())


def secret_references(desired: Iterable[Desired]) -> frozenset[str]:
    """Every secret reference in the specs, as written in the plan file."""
    return frozenset(reference for resource in desired for reference in _references(to_json(resource.spec)))


def _references(value: Json) -> Iterator[str]:
    if isinstance(value, Mapping):
        if set(value) == {"secret"} and isinstance(value["secret"], str):
            yield value["secret"]
        else:
            for item in value.values():
                yield from _references(item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _references(item)


def decode_spec(address: Address, value: Json) -> Any:
    """The spec of a resource, from its JSON in a saved change set or a node's record.

    Raises:
        ValueError, TypeError: the JSON is not a spec of this kind.
    """
    kind = _KINDS.get(address.kind)
    if kind is None or kind.spec_type is None:
        return as_object(value)
    return decode(kind.spec_type, as_object(value))


def decode_payload(address: Address, value: Json) -> Any:
    """The payload of a step, from its JSON in a saved change set; its `type` names one of the kind's payload types.

    Raises:
        KeyError, ValueError, TypeError: the JSON is not a payload of this kind.
    """
    kind = _KINDS.get(address.kind)
    if kind is None or not kind.payload_types:
        return as_object(value)
    fields = dict(as_object(value))
    payload_types = {payload_type.__name__: payload_type for payload_type in kind.payload_types}
    return decode(payload_types[str(fields.pop("type"))], fields)
