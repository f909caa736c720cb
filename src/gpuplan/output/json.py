"""What scripts read: change sets, outcomes, drift reports and diagnostics as JSON objects.

docs/json.md describes every field. `core/plan/saved.py` reads a change set back; a changed meaning of one of its fields
needs a new `FORMAT` in `types/changeset.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from gpuplan.output.text import latency_statistics, throughput
from gpuplan.types import changeset
from gpuplan.types.address import Address
from gpuplan.types.change import Change, FieldChange, Step, Unmanaged, Unreadable
from gpuplan.types.changeset import ChangeSet, NodeChanges
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.finding import NodeFindings, Report
from gpuplan.types.outcome import NodeOutcome, StepOutcome
from gpuplan.types.smoke import NodeSmokeResults, SmokeResult
from gpuplan.types.value import Json, JsonObject, KnownAfterApply, as_object, to_json

FORMAT = 1
"""Of all documents but the change set; increased when an old reader would misread a new document."""


def json_text(value: Json) -> str:
    """A JSON document as indented text."""
    return json.dumps(value, indent=2, default=_plain)


def diagnostic_json(diagnostic: Diagnostic) -> JsonObject:
    """A diagnostic."""
    where = diagnostic.where
    return {
        "severity": diagnostic.severity.value,
        "summary": diagnostic.summary,
        "detail": diagnostic.detail,
        "fix": diagnostic.fix,
        "address": diagnostic.address,
        "check": diagnostic.check,
        "where": {"file": where.file, "line": where.line, "column": where.column} if where else None,
    }


def change_json(change: Change) -> JsonObject:
    """A change without its steps."""
    return {
        "address": str(change.address),
        "action": change.action.name.lower(),
        "origin": change.origin.value if change.origin else None,
        "cause": _optional(change.cause),
        "fields": [_field(field) for field in change.fields],
        "reasons": list(change.reasons),
        "interrupts": list(change.interrupts),
    }


def unmanaged_json(resource: Unmanaged) -> JsonObject:
    """A resource that this plan file did not make."""
    return {
        "address": str(resource.address),
        "what": resource.what,
        "in_the_way_of": _optional(resource.in_the_way_of),
        "guard": resource.guard,
        "sees": [str(address) for address in resource.sees],
        "as_wanted": resource.as_wanted,
    }


def unknown_json(resource: Unreadable) -> JsonObject:
    """A resource that could not be read."""
    return {
        "address": str(resource.address),
        "cause": _optional(resource.cause),
        "diagnostic": diagnostic_json(resource.diagnostic),
    }


def _field(field: FieldChange) -> JsonObject:
    later = field.after if isinstance(field.after, KnownAfterApply) else None
    return {
        "path": field.path,
        "before": field.before,
        "after": None if isinstance(field.after, KnownAfterApply) else field.after,
        "after_known_later": later.what if later else None,
        "sensitive": field.sensitive,
    }


def _optional(address: Address | None) -> str | None:
    """An address, or null."""
    return str(address) if address else None


def change_set_document(change_set: ChangeSet) -> JsonObject:
    """The JSON of a change set. It holds no secret: specs and steps hold only references."""
    return {
        "kind": changeset.KIND,
        "format": changeset.FORMAT,
        "plan": change_set.plan,
        "plan_file": change_set.plan_file,
        "run": change_set.run,
        "created": change_set.created,
        "destroy": change_set.destroy,
        "only": list(change_set.only),
        "targets": list(change_set.targets),
        "replace": list(change_set.replace),
        "nodes": [_planned_node(node) for node in change_set.nodes],
    }


def _planned_node(node: NodeChanges) -> JsonObject:
    return {
        "node": node.node,
        "resources": node.resources,
        "changes": [_change(change) for change in node.changes],
        "order": list(node.order),
        "unmanaged": [unmanaged_json(resource) for resource in node.unmanaged],
        "unknown": [unknown_json(resource) for resource in node.unknown],
        "diagnostics": [diagnostic_json(diagnostic) for diagnostic in node.diagnostics],
        "rests_on": {str(address): moved for address, moved in node.rests_on.items()},
        "desired": [
            {"address": str(desired.address), "spec": to_json(desired.spec), "needs": _names(desired.needs)}
            for desired in node.desired
        ],
    }


def _change(change: Change) -> JsonObject:
    return {
        **change_json(change),
        "disturbs": {str(address): why for address, why in change.disturbs.items()},
        "steps": [_planned_step(step) for step in change.steps],
    }


def _planned_step(step: Step) -> JsonObject:
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
    """The payload; `type` names its class."""
    if isinstance(step.payload, Mapping):
        return to_json(step.payload)
    return {"type": type(step.payload).__name__, **as_object(to_json(step.payload))}


def _names(addresses: Sequence[Address]) -> list[str]:
    return [str(address) for address in addresses]


def outcomes_document(applied: ChangeSet, nodes: Sequence[NodeOutcome]) -> JsonObject:
    """What an apply did."""
    return {
        "kind": "gpuplan outcomes",
        "format": FORMAT,
        "plan": applied.plan,
        "run": applied.run,
        "destroy": applied.destroy,
        "nodes": [_outcome(node) for node in nodes],
    }


def drift_document(report: Report) -> JsonObject:
    """What a drift check reports."""
    return {
        "kind": "gpuplan drift report",
        "format": FORMAT,
        "plan": report.plan,
        "checked_at": report.checked_at,
        "seconds": round(report.seconds, 3),
        "nodes": [_findings(node) for node in report.nodes],
    }


def diagnostics_document() -> JsonObject:
    """A document without a result: the console adds the diagnostics."""
    return {"kind": "gpuplan diagnostics", "format": FORMAT}


def _outcome(node: NodeOutcome) -> JsonObject:
    return {
        "node": node.node,
        "exit_code": int(node.exit_code),
        "steps": [_ended_step(step) for step in node.steps],
        "remaining": [change_json(change) for change in node.remaining],
        "diagnostics": [diagnostic_json(diagnostic) for diagnostic in node.diagnostics],
    }


def _ended_step(step: StepOutcome) -> JsonObject:
    return {
        "step": step.step,
        "title": step.title,
        "status": step.status.value,
        "seconds": round(step.seconds, 3),
        "transcript": list(step.transcript),
        "diagnostics": [diagnostic_json(diagnostic) for diagnostic in step.diagnostics],
    }


def _findings(node: NodeFindings) -> JsonObject:
    return {
        "node": node.node,
        "busy": node.busy,
        "drift": [
            {"change": change_json(drift.change), "dependants": _names(drift.dependants)} for drift in node.drift
        ],
        "pending": [str(address) for address in node.pending],
        "rotated": [change_json(change) for change in node.rotated],
        "unmanaged": [unmanaged_json(resource) for resource in node.unmanaged],
        "unknown": [unknown_json(resource) for resource in node.unknown],
        "suppressed": node.suppressed,
        "diagnostics": [diagnostic_json(diagnostic) for diagnostic in node.diagnostics],
    }


def smoke_document(plan: str, nodes: Sequence[NodeSmokeResults]) -> JsonObject:
    """What the models answered."""
    return {
        "kind": "gpuplan smoke",
        "format": FORMAT,
        "plan": plan,
        "nodes": [_smoke_node(node) for node in nodes],
    }


def _smoke_node(node: NodeSmokeResults) -> JsonObject:
    return {
        "node": node.node,
        "proofs": [_proof(proof) for proof in node.proofs],
        "unread": [diagnostic_json(diagnostic) for diagnostic in node.unread],
    }


def _proof(proof: SmokeResult) -> JsonObject:
    times = (
        {name: round(value, 3) for name, value in latency_statistics(proof.latencies).items()}
        if proof.latencies
        else None
    )
    return {
        "address": str(proof.address),
        "version": proof.version,
        "ok": not proof.diagnostics,
        "protocol": proof.protocol,
        "shared_memory": proof.shared_memory,
        "requests": proof.requests,
        "failed": proof.requests - len(proof.latencies),
        "concurrency": proof.concurrency,
        "seconds": round(proof.seconds, 3),
        "per_second": round(throughput(proof), 1),
        "latency_ms": times,
        "diagnostics": [diagnostic_json(diagnostic) for diagnostic in proof.diagnostics],
    }


def check_document(models: Sequence[str], silenced: int) -> JsonObject:
    """What `gpuplan check` checked; the console adds the findings as diagnostics."""
    return {"kind": "gpuplan check", "format": FORMAT, "models": list(models), "silenced": silenced}


def _plain(value: object) -> object:
    """Read-only mappings, tuples and sets, which json cannot write by itself."""
    if hasattr(value, "items"):
        return dict(value.items())
    if isinstance(value, Sequence | set | frozenset):
        return list(value)
    raise TypeError(f"not JSON: {type(value).__name__}")
