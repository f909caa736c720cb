"""What scripts read: outcomes, drift reports and diagnostics as JSON objects, described field by field in docs/json.md.

The change set has its JSON in json_change_set.py; what is common to all of them is in json_parts.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.output.json_parts import change, diagnostic, unknown, unmanaged
from gpuplan.types.changeset import ChangeSet
from gpuplan.types.finding import NodeFindings, Report
from gpuplan.types.outcome import NodeOutcome, StepOutcome
from gpuplan.types.value import JsonObject

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
        "rotated": [change(each) for each in node.rotated],
        "unmanaged": [unmanaged(each) for each in node.unmanaged],
        "unknown": [unknown(each) for each in node.unknown],
        "suppressed": node.suppressed,
        "diagnostics": [diagnostic(each) for each in node.diagnostics],
    }
