"""Reads a saved change set (docs/json.md), for `gpuplan apply FILE`. `output/json.py` writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from gpuplan.core.plan.desired import decode_payload, decode_spec
from gpuplan.types.address import Address, parse_address
from gpuplan.types.change import (
    FORMAT,
    KIND,
    Action,
    Change,
    ChangeSet,
    FieldChange,
    NodeChanges,
    Origin,
    Step,
    Unmanaged,
    Unreadable,
    Verb,
)
from gpuplan.types.diagnostic import Diagnostic, Location, Problem, Severity
from gpuplan.types.resource import Desired
from gpuplan.types.value import Json, JsonObject, KnownAfterApply, as_list, as_object

Value = TypeVar("Value")


def read_change_set(value: Json, file: str) -> ChangeSet:
    """The change set in a saved file's JSON.

    Raises:
        Problem: it is not a change set, is damaged, or has another format.
    """
    if not isinstance(value, Mapping) or value.get("kind") != KIND:
        raise Problem(_unusable(file, "it is not a gpuplan change set"))
    if value.get("format") != FORMAT:
        raise Problem(
            _unusable(file, f"its format is {value.get('format')}, but this gpuplan version reads format {FORMAT}")
        )
    try:
        return ChangeSet(
            plan=str(value["plan"]),
            plan_file=str(value["plan_file"]),
            run=str(value["run"]),
            created=str(value["created"]),
            destroy=value["destroy"] is True,
            only=tuple(str(kind) for kind in as_list(value["only"])),
            targets=tuple(str(target) for target in as_list(value["targets"])),
            replace=tuple(str(glob) for glob in as_list(value["replace"])),
            nodes=_values(value["nodes"], _node),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Problem(_unusable(file, f"it is damaged: {error}")) from error


def _unusable(file: str, reason: str) -> Diagnostic:
    return Diagnostic(
        "Cannot use the change set",
        f"{file} cannot be applied: {reason}.",
        "Create a new one: gpuplan plan PLAN -i INVENTORY --out FILE",
        where=Location(file),
    )


def _node(value: JsonObject) -> NodeChanges:
    return NodeChanges(
        node=str(value["node"]),
        resources=int(str(value["resources"])),
        changes=_values(value["changes"], _change),
        order=tuple(str(step) for step in as_list(value["order"])),
        unmanaged=_values(value["unmanaged"], _unmanaged),
        unknown=_values(value["unknown"], _unreadable),
        diagnostics=_values(value["diagnostics"], _diagnostic),
        rests_on={parse_address(name): str(state) for name, state in as_object(value["rests_on"]).items()},
        desired=_values(
            value["desired"],
            _desired,
        ),
    )


def _unmanaged(value: JsonObject) -> Unmanaged:
    return Unmanaged(
        address=parse_address(str(value["address"])),
        what=str(value["what"]),
        in_the_way_of=_optional_address(value["in_the_way_of"]),
        guard=str(value["guard"]),
        sees=_addresses(value["sees"]),
        as_wanted=value["as_wanted"] is True,
    )


def _unreadable(value: JsonObject) -> Unreadable:
    diagnostic = _diagnostic(as_object(value["diagnostic"]))
    return Unreadable(parse_address(str(value["address"])), diagnostic, _optional_address(value["cause"]))


def _desired(value: JsonObject) -> Desired:
    address = parse_address(str(value["address"]))
    return Desired(address, decode_spec(address, value["spec"]), _addresses(value["needs"]))


def _change(value: JsonObject) -> Change:
    address = parse_address(str(value["address"]))
    return Change(
        address=address,
        action=Action[str(value["action"]).upper()],
        origin=Origin(value["origin"]) if value["origin"] else None,
        cause=_optional_address(value["cause"]),
        fields=_values(value["fields"], _field),
        reasons=tuple(str(reason) for reason in as_list(value["reasons"])),
        interrupts=tuple(str(effect) for effect in as_list(value["interrupts"])),
        disturbs={parse_address(name): str(reason) for name, reason in as_object(value["disturbs"]).items()},
        steps=_values(value["steps"], lambda step: _step(address, step)),
    )


def _field(value: JsonObject) -> FieldChange:
    unknown = value["after_known_later"]
    after = KnownAfterApply(str(unknown)) if unknown is not None else value["after"]
    return FieldChange(str(value["path"]), value["before"], after, value["sensitive"] is True)


def _step(address: Address, value: JsonObject) -> Step:
    return Step(
        name=str(value["name"]),
        address=address,
        verb=Verb(value["verb"]),
        title=str(value["title"]),
        payload=decode_payload(address, value["payload"]),
        sequence=str(value["sequence"]),
        concurrency_group=str(value["concurrency_group"]),
        max_parallel=int(str(value["max_parallel"])),
        makes=_addresses(value["makes"]),
        uses=_addresses(value["uses"]),
        releases=_addresses(value["releases"]),
        frees=_addresses(value["frees"]),
        after=_addresses(value["after"]),
    )


def _diagnostic(value: JsonObject) -> Diagnostic:
    where = value["where"]
    return Diagnostic(
        summary=str(value["summary"]),
        detail=str(value["detail"]),
        fix=str(value["fix"]),
        where=Location(str(where["file"]), int(str(where["line"])), int(str(where["column"])))
        if isinstance(where, Mapping)
        else None,
        address=str(value["address"]),
        severity=Severity(value["severity"]),
    )


def _values(value: Json, make: Callable[[JsonObject], Value]) -> tuple[Value, ...]:
    return tuple(make(as_object(item)) for item in as_list(value))


def _addresses(value: Json) -> tuple[Address, ...]:
    return tuple(parse_address(str(name)) for name in as_list(value))


def _optional_address(value: Json) -> Address | None:
    return parse_address(value) if isinstance(value, str) else None
