"""What scripts read: outcomes, drift reports and diagnostics as JSON objects, described field by field in docs/json.md.

The change set has its JSON in flow/saved.py, since it is read back; a change and a diagnostic look the same in both.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.model.address import Address
from gpuplan.model.change import Change, FieldChange, Unknown, Unmanaged
from gpuplan.model.changeset import ChangeSet
from gpuplan.model.diagnostic import Diagnostic
from gpuplan.model.finding import NodeFindings, Report
from gpuplan.model.outcome import NodeOutcome, StepOutcome
from gpuplan.model.value import JsonObject, Later

FORMAT = 1
"""Raised when a reader of the old form would misread the new one; fields may be added without."""


def outcomes(applied: ChangeSet, nodes: Sequence[NodeOutcome]) -> JsonObject:
    """What an apply did."""
    return {
        "kind": "gpuplan outcomes",
        "format": FORMAT,
        "plan": applied.plan,
        "run": applied.run,
        "destroy": applied.destroy,
        "nodes": [_outcome(node) for node in nodes],
    }


def report(checked: Report) -> JsonObject:
    """What a drift check found."""
    return {
        "kind": "gpuplan drift report",
        "format": FORMAT,
        "plan": checked.plan,
        "checked_at": checked.checked_at,
        "seconds": round(checked.seconds, 3),
        "nodes": [_findings(node) for node in checked.nodes],
    }


def told() -> JsonObject:
    """The frame of an answer that holds nothing but diagnostics."""
    return {"kind": "gpuplan diagnostics", "format": FORMAT}


def diagnostic(one: Diagnostic) -> JsonObject:
    """One diagnostic."""
    where = one.where
    return {
        "severity": one.severity.value,
        "summary": one.summary,
        "detail": one.detail,
        "fix": one.fix,
        "address": one.address,
        "where": {"file": where.file, "line": where.line, "column": where.column} if where else None,
    }


def change(one: Change) -> JsonObject:
    """One change without its steps."""
    return {
        "address": str(one.address),
        "action": one.action.name.lower(),
        "origin": one.origin.value if one.origin else None,
        "cause": _maybe(one.cause),
        "fields": [_field(field) for field in one.fields],
        "reasons": list(one.reasons),
        "interrupts": list(one.interrupts),
    }


def _outcome(node: NodeOutcome) -> JsonObject:
    return {
        "node": node.node,
        "exit_code": int(node.exit_code),
        "steps": [_step(step) for step in node.steps],
        "remaining": [change(each) for each in node.remaining],
        "diagnostics": [diagnostic(each) for each in node.diagnostics],
    }


def _step(step: StepOutcome) -> JsonObject:
    return {
        "step": step.step,
        "title": step.title,
        "status": step.status.value,
        "seconds": round(step.seconds, 3),
        "transcript": list(step.transcript),
        "diagnostics": [diagnostic(each) for each in step.diagnostics],
    }


def _findings(node: NodeFindings) -> JsonObject:
    return {
        "node": node.node,
        "busy": node.busy,
        "drift": [
            {"change": change(each.change), "dependants": [str(address) for address in each.dependants]}
            for each in node.drift
        ],
        "pending": [str(address) for address in node.pending],
        "unmanaged": [_unmanaged(each) for each in node.unmanaged],
        "unknown": [_unknown(each) for each in node.unknown],
        "suppressed": node.suppressed,
        "diagnostics": [diagnostic(each) for each in node.diagnostics],
    }


def _unmanaged(one: Unmanaged) -> JsonObject:
    return {
        "address": str(one.address),
        "what": one.what,
        "in_the_way_of": _maybe(one.in_the_way_of),
        "guard": one.guard,
    }


def _unknown(one: Unknown) -> JsonObject:
    return {"address": str(one.address), "diagnostic": diagnostic(one.diagnostic)}


def _field(one: FieldChange) -> JsonObject:
    later = one.after if isinstance(one.after, Later) else None
    return {
        "path": one.path,
        "before": one.before,
        "after": None if isinstance(one.after, Later) else one.after,
        "after_known_later": later.what if later else None,
        "sensitive": one.sensitive,
    }


def _maybe(address: Address | None) -> str | None:
    return str(address) if address else None
