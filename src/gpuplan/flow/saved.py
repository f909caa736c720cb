"""The change set as JSON: what `--json` prints, what `--out` saves, and what `gpuplan apply FILE` reads back.

The fields are described in docs/json.md. Whoever changes the meaning of one raises `FORMAT` in model/changeset.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from gpuplan.model.address import Address, parse_address
from gpuplan.model.change import Action, Change, FieldChange, Origin, Step, Unknown, Unmanaged, Verb
from gpuplan.model.changeset import FORMAT, ChangeSet, NodeChanges
from gpuplan.model.diagnostic import Diagnostic, Location, Problem, Severity
from gpuplan.model.resource import Desired
from gpuplan.model.value import Json, JsonObject, Later, as_list, as_object

KIND = "gpuplan change set"

Made = TypeVar("Made")


def save(change_set: ChangeSet) -> JsonObject:
    """The JSON of a change set. It holds no secret: specs and steps hold only references."""
    return {
        "kind": KIND,
        "format": FORMAT,
        "plan": change_set.plan,
        "plan_file": change_set.plan_file,
        "run": change_set.run,
        "created": change_set.created,
        "destroy": change_set.destroy,
        "only": list(change_set.only),
        "nodes": [_node(node) for node in change_set.nodes],
    }


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
            only=tuple(str(kind) for kind in as_list(value.get("only") or [])),
            nodes=_each(value["nodes"], _node_back),
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


def _node(node: NodeChanges) -> JsonObject:
    return {
        "node": node.node,
        "resources": node.resources,
        "changes": [_change(change) for change in node.changes],
        "order": list(node.order),
        "unmanaged": [
            {
                "address": str(each.address),
                "what": each.what,
                "in_the_way_of": str(each.in_the_way_of) if each.in_the_way_of else None,
                "guard": each.guard,
            }
            for each in node.unmanaged
        ],
        "unknown": [
            {"address": str(each.address), "diagnostic": diagnostic_json(each.diagnostic)} for each in node.unknown
        ],
        "diagnostics": [diagnostic_json(each) for each in node.diagnostics],
        "rests_on": {str(address): moved for address, moved in node.rests_on.items()},
        "desired": [
            {"address": str(each.address), "spec": each.spec, "needs": _names(each.needs)} for each in node.desired
        ],
    }


def _change(change: Change) -> JsonObject:
    return {
        "address": str(change.address),
        "action": change.action.name.lower(),
        "origin": change.origin.value if change.origin else None,
        "cause": str(change.cause) if change.cause else None,
        "fields": [
            {
                "path": field.path,
                "before": field.before,
                "after": None if isinstance(field.after, Later) else field.after,
                "after_known_later": field.after.what if isinstance(field.after, Later) else None,
                "sensitive": field.sensitive,
            }
            for field in change.fields
        ],
        "reasons": list(change.reasons),
        "interrupts": list(change.interrupts),
        "disturbs": {str(address): why for address, why in change.disturbs.items()},
        "steps": [
            {
                "name": step.name,
                "verb": step.verb.value,
                "title": step.title,
                "arguments": step.arguments,
                "lane": step.lane,
                "makes": _names(step.makes),
                "uses": _names(step.uses),
                "releases": _names(step.releases),
                "frees": _names(step.frees),
            }
            for step in change.steps
        ],
    }


def diagnostic_json(diagnostic: Diagnostic) -> JsonObject:
    """The JSON of one diagnostic."""
    where = diagnostic.where
    return {
        "severity": diagnostic.severity.value,
        "summary": diagnostic.summary,
        "detail": diagnostic.detail,
        "fix": diagnostic.fix,
        "address": diagnostic.address,
        "where": {"file": where.file, "line": where.line, "column": where.column} if where else None,
    }


def _names(addresses: Sequence[Address]) -> list[str]:
    return [str(address) for address in addresses]


def _node_back(value: JsonObject) -> NodeChanges:
    return NodeChanges(
        node=str(value["node"]),
        resources=int(str(value["resources"])),
        changes=_each(value["changes"], _change_back),
        order=tuple(str(step) for step in as_list(value["order"])),
        unmanaged=_each(
            value["unmanaged"],
            lambda each: Unmanaged(
                parse_address(str(each["address"])),
                str(each["what"]),
                _maybe(each["in_the_way_of"]),
                str(each["guard"]),
            ),
        ),
        unknown=_each(
            value["unknown"],
            lambda each: Unknown(parse_address(str(each["address"])), _diagnostic_back(as_object(each["diagnostic"]))),
        ),
        diagnostics=_each(value["diagnostics"], _diagnostic_back),
        rests_on={parse_address(name): str(moved) for name, moved in as_object(value["rests_on"]).items()},
        desired=_each(
            value["desired"],
            lambda each: Desired(
                parse_address(str(each["address"])), as_object(each["spec"]), _addresses(each["needs"])
            ),
        ),
    )


def _change_back(value: JsonObject) -> Change:
    address = parse_address(str(value["address"]))
    return Change(
        address=address,
        action=Action[str(value["action"]).upper()],
        origin=Origin(value["origin"]) if value["origin"] else None,
        cause=_maybe(value["cause"]),
        fields=_each(value["fields"], _field_back),
        reasons=tuple(str(each) for each in as_list(value["reasons"])),
        interrupts=tuple(str(each) for each in as_list(value["interrupts"])),
        disturbs={parse_address(name): str(why) for name, why in as_object(value["disturbs"]).items()},
        steps=_each(value["steps"], lambda each: _step_back(address, each)),
    )


def _field_back(value: JsonObject) -> FieldChange:
    later = value["after_known_later"]
    after = Later(str(later)) if later is not None else value["after"]
    return FieldChange(str(value["path"]), value["before"], after, value["sensitive"] is True)


def _step_back(address: Address, value: JsonObject) -> Step:
    return Step(
        name=str(value["name"]),
        address=address,
        verb=Verb(value["verb"]),
        title=str(value["title"]),
        arguments=as_object(value["arguments"]),
        lane=str(value.get("lane", "")),
        makes=_addresses(value["makes"]),
        uses=_addresses(value["uses"]),
        releases=_addresses(value["releases"]),
        frees=_addresses(value["frees"]),
    )


def _diagnostic_back(value: JsonObject) -> Diagnostic:
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
