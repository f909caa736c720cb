"""The JSON of a change set: what `--json` prints and `--out` saves; flow/saved.py reads it back.

The fields are described in docs/json.md. Whoever changes the meaning of one raises `FORMAT` in model/changeset.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuplan.output.json_parts import change, diagnostic, unknown, unmanaged
from gpuplan.types.address import Address
from gpuplan.types.change import Change, Step
from gpuplan.types.changeset import FORMAT, KIND, ChangeSet, NodeChanges
from gpuplan.types.value import Json, JsonObject, as_object, to_json


def change_set(whole: ChangeSet) -> JsonObject:
    """The JSON of a change set. It holds no secret: specs and steps hold only references."""
    return {
        "kind": KIND,
        "format": FORMAT,
        "plan": whole.plan,
        "plan_file": whole.plan_file,
        "run": whole.run,
        "created": whole.created,
        "destroy": whole.destroy,
        "only": list(whole.only),
        "targets": list(whole.targets),
        "replace": list(whole.replace),
        "nodes": [_node(node) for node in whole.nodes],
    }


def _node(node: NodeChanges) -> JsonObject:
    return {
        "node": node.node,
        "resources": node.resources,
        "changes": [_change(each) for each in node.changes],
        "order": list(node.order),
        "unmanaged": [unmanaged(each) for each in node.unmanaged],
        "unknown": [unknown(each) for each in node.unknown],
        "diagnostics": [diagnostic(each) for each in node.diagnostics],
        "rests_on": {str(address): moved for address, moved in node.rests_on.items()},
        "desired": [
            {"address": str(desired.address), "spec": to_json(desired.spec), "needs": _names(desired.needs)}
            for desired in node.desired
        ],
    }


def _change(one: Change) -> JsonObject:
    return {
        **change(one),
        "disturbs": {str(address): why for address, why in one.disturbs.items()},
        "steps": [_step(step) for step in one.steps],
    }


def _step(step: Step) -> JsonObject:
    return {
        "name": step.name,
        "verb": step.verb.value,
        "title": step.title,
        "payload": _payload(step),
        "sequence": step.sequence,
        "concurrency_group": step.concurrency_group,
        "max_parallel": step.max_parallel,
        "makes": _names(step.makes),
        "uses": _names(step.uses),
        "releases": _names(step.releases),
        "frees": _names(step.frees),
        "after": _names(step.after),
    }


def _payload(step: Step) -> Json:
    """The step's payload; `type` names its class."""
    if step.payload is None or isinstance(step.payload, Mapping):
        return to_json(step.payload)
    return {"type": type(step.payload).__name__, **as_object(to_json(step.payload))}


def _names(addresses: Sequence[Address]) -> list[str]:
    return [str(address) for address in addresses]
