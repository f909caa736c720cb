"""Percentiles of latencies: exact over all samples, interpolated between the two nearest."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

PERCENTILES = (50, 90, 95, 99)


def in_milliseconds(seconds: Sequence[float]) -> Mapping[str, float]:
    """p50, p90, p95, p99, max and mean of at least one sample, in milliseconds."""
    samples = [1000 * each for each in seconds]
    cuts = statistics.quantiles(samples, n=100, method="inclusive") if len(samples) > 1 else samples * 99
    found = {f"p{percent}": cuts[percent - 1] for percent in PERCENTILES}
    return {**found, "max": max(samples), "mean": statistics.fmean(samples)}
