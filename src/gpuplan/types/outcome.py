"""Outcomes: what each step of an apply did."""

from __future__ import annotations

import enum
from dataclasses import dataclass

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
