"""The results of smoke requests, on a terminal: by node, one line per model version, with its latencies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from gpuplan.output.page import BLANK, Block, Page, paragraph
from gpuplan.output.text import count, latency_statistics, throughput, visible, within
from gpuplan.types.report import NodeSmokeResults, SmokeResult

SHOWN = ("p50", "p90", "p95", "p99", "max")
COLUMN = 7
"""Columns of a number, including the space before it."""


def render_smoke(nodes: Sequence[NodeSmokeResults]) -> Page:
    """Everything but the diagnostics, with the summary at the end."""
    for node in nodes:
        yield from _node(node)
        yield BLANK
    yield paragraph(Text(_summary(nodes), "bold"))


def _node(node: NodeSmokeResults) -> Iterator[Block]:
    in_flight = max((proof.concurrency for proof in node.proofs), default=1)
    concurrency = f", {in_flight} requests in flight" if in_flight > 1 else ""
    yield paragraph(Text.assemble((visible(node.node), "bold"), (concurrency, "dim")))
    names = [_name(node.node, proof) for proof in node.proofs]
    widest = max(map(len, names), default=0)
    if any(proof.requests > 1 for proof in node.proofs):
        yield paragraph(Text(f"{'':<{widest}} {_header()}", "dim"), "    ")
    for name, proof in zip(names, node.proofs, strict=True):
        sign = ("✗", "bold red") if proof.diagnostics else ("✓", "green")
        yield paragraph(Text(f"{name:<{widest}} {_result(proof)}"), Text.assemble("  ", sign, " "))
    for diagnostic in node.unread:
        text = f"{visible(diagnostic.address or node.node)}: {visible(diagnostic.summary)}"
        yield paragraph(Text(text, "red"), "  ? ")


def _name(node: str, proof: SmokeResult) -> str:
    version = "" if proof.version is None else f" version {proof.version}"
    return f"{within(node, proof.address).removeprefix('model/')}{version}"


def _result(proof: SmokeResult) -> str:
    failed = proof.requests - len(proof.latencies)
    if not proof.requests:
        return " no request sent"
    if proof.requests == 1:
        return f" answered in {1000 * proof.latencies[0]:.1f} ms" if proof.latencies else " failed"
    numbers = f"{proof.requests:>{COLUMN}}{failed:>{COLUMN}}"
    if not proof.latencies:
        return numbers
    statistics = latency_statistics(proof.latencies)
    times = "".join(f"{statistics[name]:>{COLUMN}.1f}" for name in SHOWN)
    return f"{numbers}{times}{_per_second(proof):>{COLUMN + 3}}"


def _header() -> str:
    names = "".join(f"{name:>{COLUMN}}" for name in ("sent", "failed", *SHOWN))
    return f"{names} ms{'per s':>{COLUMN}}"


def _per_second(proof: SmokeResult) -> str:
    rate = throughput(proof)
    return f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}"


def _summary(nodes: Sequence[NodeSmokeResults]) -> str:
    proofs = [proof for node in nodes for proof in node.proofs]
    failed = {proof.address for proof in proofs if proof.diagnostics}
    models = {proof.address for proof in proofs}
    where = count(len(nodes), "node")
    unread = sum(bool(node.unread) for node in nodes)
    note = f" {count(unread, 'node')} could not be read completely." if unread else ""
    if failed:
        return f"Smoke: {len(failed)} of {count(len(models), 'model')} failed on {where}.{note}"
    return f"Smoke: {count(len(models), 'model')} answered on {where}.{note}"
