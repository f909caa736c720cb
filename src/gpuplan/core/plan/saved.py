"""Reads a saved change set back (docs/json.md), for `gpuplan apply FILE`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from gpuplan.core.plan.decode import decode_payload, decode_spec
from gpuplan.types.address import Address, parse_address
from gpuplan.types.change import Action, Change, FieldChange, Origin, Step, Unmanaged, Unreadable, Verb
from gpuplan.types.changeset import FORMAT, KIND, ChangeSet, NodeChanges
from gpuplan.types.diagnostic import Diagnostic, Location, Problem, Severity
from gpuplan.types.resource import Desired
from gpuplan.types.value import Json, JsonObject, KnownAfterApply, as_list, as_object

Made = TypeVar("Made")


def restore(value: Json, file: str) -> ChangeSet:
    """The change set in a saved file.

    Raises:
        Problem: it is none, is damaged, or was written by a version with another format.
    """
    if not isinstance(value, Mapping) or value.get("kind") != KIND:
        raise Problem(_unusable(file, "it is not a change set"))
    if value.get("format") != FORMAT:
        raise Problem(_unusable(file, f"it has format {value.get('format')}, and this version reads {FORMAT}"))
    try:
        return ChangeSet(
            plan=str(value["plan"]),
            plan_file=str(value["plan_file"]),
            run=str(value["run"]),
            created=str(value["created"]),
            destroy=value["destroy"] is True,
            only=tuple(str(kind) for kind in as_list(value["only"])),
            targets=tuple(str(target) for target in as_list(value["targets"])),
            replace=tuple(str(each) for each in as_list(value.get("replace") or ())),
            nodes=_each(value["nodes"], _node),
        )
    except (KeyError, TypeError, ValueError) as fault:
        raise Problem(_unusable(file, f"it is damaged: {fault}")) from fault


def _unusable(file: str, why: str) -> Diagnostic:
    return Diagnostic(
        "Not a usable change set",
        f"{file} cannot be applied: {why}.",
        "Make a new one: gpuplan plan PLAN -i INVENTORY --out FILE",
        where=Location(file),
    )


def _node(value: JsonObject) -> NodeChanges:
    return NodeChanges(
        node=str(value["node"]),
        resources=int(str(value["resources"])),
        changes=_each(value["changes"], _change),
        order=tuple(str(step) for step in as_list(value["order"])),
        unmanaged=_each(
            value["unmanaged"],
            lambda each: Unmanaged(
                parse_address(str(each["address"])),
                str(each["what"]),
                _maybe(each["in_the_way_of"]),
                str(each["guard"]),
                _addresses(each["sees"]),
                each["as_wanted"] is True,
            ),
        ),
        unknown=_each(
            value["unknown"],
            lambda each: Unreadable(
                parse_address(str(each["address"])), _diagnostic(as_object(each["diagnostic"])), _maybe(each["cause"])
            ),
        ),
        diagnostics=_each(value["diagnostics"], _diagnostic),
        rests_on={parse_address(name): str(moved) for name, moved in as_object(value["rests_on"]).items()},
        desired=_each(
            value["desired"],
            _desired,
        ),
    )


def _desired(value: JsonObject) -> Desired:
    address = parse_address(str(value["address"]))
    return Desired(address, decode_spec(address, value["spec"]), _addresses(value["needs"]))


def _change(value: JsonObject) -> Change:
    address = parse_address(str(value["address"]))
    return Change(
        address=address,
        action=Action[str(value["action"]).upper()],
        origin=Origin(value["origin"]) if value["origin"] else None,
        cause=_maybe(value["cause"]),
        fields=_each(value["fields"], _field),
        reasons=tuple(str(each) for each in as_list(value["reasons"])),
        interrupts=tuple(str(each) for each in as_list(value["interrupts"])),
        disturbs={parse_address(name): str(why) for name, why in as_object(value["disturbs"]).items()},
        steps=_each(value["steps"], lambda each: _step(address, each)),
    )


def _field(value: JsonObject) -> FieldChange:
    later = value["after_known_later"]
    after = KnownAfterApply(str(later)) if later is not None else value["after"]
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


def _each(value: Json, make: Callable[[JsonObject], Made]) -> tuple[Made, ...]:
    return tuple(make(as_object(each)) for each in as_list(value))


def _addresses(value: Json) -> tuple[Address, ...]:
    return tuple(parse_address(str(name)) for name in as_list(value))


def _maybe(value: Json) -> Address | None:
    return parse_address(value) if isinstance(value, str) else None
