"""How far something has come: in words, and as a bar."""

from __future__ import annotations

from gpuplan.types.event import Amount

WIDTH = 20
"""Characters of a bar."""
MIB = 2**20


def percent(amount: Amount) -> int:
    """Whole percent, rounded down: 100 is said when all is there."""
    return 100 * min(amount.done, amount.total) // amount.total if amount.total else 100


def words(amount: Amount) -> str:
    """Percent and bytes: ``42 %, 126 of 300 MiB``."""
    if amount.total < MIB:
        return f"{percent(amount)} %, {amount.done:,} of {amount.total:,} bytes"
    return f"{percent(amount)} %, {amount.done / MIB:,.0f} of {amount.total / MIB:,.0f} MiB"


def bar(amount: Amount) -> str:
    """A bar that is told apart from its ground without colour."""
    full = WIDTH * percent(amount) // 100
    return "█" * full + "░" * (WIDTH - full)
