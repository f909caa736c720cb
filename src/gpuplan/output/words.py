"""Numbers, times and addresses as words."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.output.escape import visible
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Severity


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: “1 node”, “2 nodes”."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Seconds as people read them: ``0.3 s``, ``2 min 05 s``."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def within(node: str, address: Address) -> str:
    """The address as it is written under the heading of its node: ``container/triton-cls``."""
    text = str(address) if address.node != node else f"{address.kind}/{address.name}"
    return visible(text)


def few(names: Sequence[str]) -> str:
    """“a”, “a and b”, “a, b and c”; of more than four the first three, “and 194 more”."""
    *first, last = (visible(name) for name in names)
    if len(first) > 3:
        return f"{', '.join(first[:3])} and {len(names) - 3} more"
    return f"{', '.join(first)} and {last}" if first else last


def some(things: Sequence[str], most: int) -> list[str]:
    """The first of them, then how many more there are; one more is named, too, since it takes no more room."""
    return list(things) if len(things) <= most + 1 else [*things[:most], f"and {len(things) - most} more"]


def errors(diagnostics: Sequence[Diagnostic]) -> int:
    """How many of them are errors; warnings stop nothing."""
    return sum(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics)
