"""Text for people: safe to print, with counts, durations, addresses, amounts and latencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.outcome import Amount
from gpuplan.types.report import SmokeResult


def visible(text: str) -> str:
    r"""The text in one row, with everything unprintable escaped: ``\x1b``, ``\n``, ``\u202e``.

    A container name or a log line may contain terminal escapes or bidirectional marks, which could hide or forge what
    an operator reads before confirming.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def rows(text: str) -> tuple[str, ...]:
    """The rows of a text, each made printable; empty rows at the end are dropped."""
    return tuple(visible(row.rstrip().expandtabs(4)) for row in text.rstrip().splitlines())


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: “1 node”, “2 nodes”."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Seconds as ``0.3 s`` or ``2 min 05 s``."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def within(node: str, address: Address) -> str:
    """The address under the heading of its node: ``container/triton-cls``."""
    text = str(address) if address.node != node else f"{address.kind}/{address.name}"
    return visible(text)


def few(names: Sequence[str]) -> str:
    """“a”, “a and b”, “a, b and c”; of more than four names the first three, “and 194 more”."""
    *first, last = (visible(name) for name in names)
    if len(first) > 3:
        return f"{', '.join(first[:3])} and {len(names) - 3} more"
    return f"{', '.join(first)} and {last}" if first else last


def shorten(names: Sequence[str], limit: int) -> list[str]:
    """The first names, then “and 194 more”; a single further name is listed instead."""
    return list(names) if len(names) <= limit + 1 else [*names[:limit], f"and {len(names) - limit} more"]


def count_errors(diagnostics: Sequence[Diagnostic]) -> int:
    """The number of errors; warnings do not stop an apply."""
    return sum(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics)


BAR_WIDTH = 20
MIB = 2**20


def percent(amount: Amount) -> int:
    """Whole percent, rounded down, so that 100 means complete."""
    return 100 * min(amount.done, amount.total) // amount.total if amount.total else 100


def describe_amount(amount: Amount) -> str:
    """Percent and bytes: ``42 %, 126 of 300 MiB``."""
    if amount.total < MIB:
        return f"{percent(amount)} %, {amount.done:,} of {amount.total:,} bytes"
    return f"{percent(amount)} %, {amount.done / MIB:,.0f} of {amount.total / MIB:,.0f} MiB"


def bar(amount: Amount) -> str:
    """A bar that is readable without colour."""
    full = BAR_WIDTH * percent(amount) // 100
    return "█" * full + "░" * (BAR_WIDTH - full)


PERCENTILES = (50, 90, 95, 99)


def latency_statistics(seconds: Sequence[float]) -> Mapping[str, float]:
    """p50, p90, p95, p99, max and mean of at least one latency, in milliseconds; percentiles are interpolated."""
    import statistics

    samples = [1000 * latency for latency in seconds]
    cuts = statistics.quantiles(samples, n=100, method="inclusive") if len(samples) > 1 else samples * 99
    percentiles = {f"p{percent}": cuts[percent - 1] for percent in PERCENTILES}
    return {**percentiles, "max": max(samples), "mean": statistics.fmean(samples)}


def throughput(proof: SmokeResult) -> float:
    """Successful requests per second."""
    return len(proof.latencies) / proof.seconds if proof.seconds else 0.0
