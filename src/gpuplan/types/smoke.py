"""Proofs: what came of asking loaded models for inferences."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic


@dataclass(frozen=True)
class SmokeResult:
    """One version of one model, asked once or many times."""

    address: Address
    version: int | None
    """None where it did not come to asking."""
    protocol: str = ""
    shared_memory: str = "none"
    requests: int = 0
    """How many were sent."""
    concurrency: int = 1
    latencies: tuple[float, ...] = ()
    """Seconds of each request that was answered well, ascending."""
    seconds: float = 0.0
    """From the first request to the last answer."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """What was wrong; empty = it answered as it should."""


@dataclass(frozen=True)
class NodeSmokeResults:
    """What one node's models answered."""

    node: str
    proofs: tuple[SmokeResult, ...] = ()
    unread: tuple[Diagnostic, ...] = ()
    """Why the node, or one of its servers, could not be asked."""
