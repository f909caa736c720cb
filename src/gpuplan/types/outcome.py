"""Outcomes: what each step of an apply did."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from gpuplan.types.change import Change
from gpuplan.types.diagnostic import Diagnostic


class Status(enum.Enum):
    """How a step ended."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class StepOutcome:
    """One step's end, with the transcript of what was done and seen."""

    step: str
    """The step's id."""
    title: str
    status: Status
    seconds: float = 0.0
    transcript: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True)
class NodeOutcome:
    """One node's apply."""

    node: str
    steps: tuple[StepOutcome, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    """Failures outside a step: the lock was held, the change set was stale, the node could not be reached."""
    exit_code: int = 0
    remaining: tuple[Change, ...] = ()
    """What the last look still found different; not empty = it did not converge."""


# Events: what happens while work goes on, for progress display.


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
    """A listener that shows nothing."""
