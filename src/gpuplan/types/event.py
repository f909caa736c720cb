"""Events: what happens while work goes on, for whoever shows progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from gpuplan.types.outcome import StepOutcome


@dataclass(frozen=True)
class Asking:
    """A node is being asked."""

    node: str


@dataclass(frozen=True)
class Asked:
    """A node answered, or could not be reached (`problem`)."""

    node: str
    seconds: float
    problem: str = ""


@dataclass(frozen=True)
class StepStarted:
    """A step begins; `number` of `total` on its node."""

    node: str
    step: str
    title: str
    number: int
    total: int


@dataclass(frozen=True)
class Amount:
    """How far something has come, in bytes."""

    done: int
    total: int


@dataclass(frozen=True)
class StepProgress:
    """A word from inside a step: “pulling 43 %”, “waiting for READY”; with an amount where something is under way."""

    node: str
    step: str
    text: str
    amount: Amount | None = None


@dataclass(frozen=True)
class StepEnded:
    """A step ended."""

    node: str
    outcome: StepOutcome


Event: TypeAlias = Asking | Asked | StepStarted | StepProgress | StepEnded
Listener: TypeAlias = Callable[[Event], None]


def silent(event: Event) -> None:
    """A listener for whoever shows nothing."""
