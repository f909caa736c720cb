"""Power limits of the boards, in milliwatts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Power:
    """The default, which is the highest as well, and the lowest."""

    default: int
    lowest: int


_POWER = {
    "A30": Power(165_000, 100_000), "A100-PCIE": Power(300_000, 150_000), "A100": Power(400_000, 100_000),
    "H100-PCIE": Power(350_000, 200_000), "H100": Power(700_000, 200_000), "H200": Power(700_000, 200_000),
}  # fmt: skip
_OTHERS = Power(1_000_000, 200_000)


def power_of(board: str) -> Power:
    """The limits of a board, by its name in the catalog."""
    return next((power for prefix, power in _POWER.items() if board.startswith(prefix)), _OTHERS)
