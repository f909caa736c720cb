"""What models answered, as a JSON object (docs/json.md)."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.output.json import FORMAT
from gpuplan.output.json_parts import diagnostic
from gpuplan.output.percentiles import in_milliseconds
from gpuplan.output.smoke import throughput
from gpuplan.types.smoke import NodeSmokeResults, SmokeResult
from gpuplan.types.value import JsonObject


def document(plan: str, nodes: Sequence[NodeSmokeResults]) -> JsonObject:
    """What a smoke run found."""
    return {"kind": "gpuplan smoke", "format": FORMAT, "plan": plan, "nodes": [_node(node) for node in nodes]}


def _node(node: NodeSmokeResults) -> JsonObject:
    return {
        "node": node.node,
        "proofs": [_proof(proof) for proof in node.proofs],
        "unread": [diagnostic(each) for each in node.unread],
    }


def _proof(proof: SmokeResult) -> JsonObject:
    times = (
        {name: round(value, 3) for name, value in in_milliseconds(proof.latencies).items()} if proof.latencies else None
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
        "diagnostics": [diagnostic(each) for each in proof.diagnostics],
    }
