"""What a check is: an id, how bad its finding is, and what Triton does where nobody heeds it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from gpuplan.triton.lint.repository import Repository, Subject
from gpuplan.types.diagnostic import Diagnostic, Location, Severity


class Effect(enum.Enum):
    """What Triton does with what a check finds."""

    REFUSED = "the load fails"
    HANGS = "the load never ends"
    KILLS = "the load ends the whole server"
    STOPS = "the server does not start"
    WRONG = "it loads, and serves wrong or fails when it is used"
    LATE = "it loads, later than it could"
    IGNORED = "it loads, and what was stated has no effect"


@dataclass(frozen=True)
class Check:
    """One thing that is looked for. Its id is a promise: plan files silence checks by it."""

    id: str
    summary: str
    """Holds no name of the operator's."""
    effect: Effect
    severity: Severity = Severity.ERROR
    fixed: bool = False
    """True for what cannot be silenced, since nothing can be made of a model that has it."""

    def at(self, where: Location, detail: str, fix: str = "", severity: Severity | None = None) -> Diagnostic:
        """The finding at one place."""
        return Diagnostic(self.summary, detail, fix, where, severity=severity or self.severity, check=self.id)


Findings: TypeAlias = Iterator[Diagnostic]
ModelCheck: TypeAlias = Callable[[Subject, Repository], Findings]
"""Looks at one model, in sight of the others of its server."""
ServerCheck: TypeAlias = Callable[[Repository], Findings]
"""Looks at all models of a server together."""


@dataclass(frozen=True)
class Family:
    """Checks of one subject matter, in one file."""

    checks: tuple[Check, ...]
    models: tuple[ModelCheck, ...] = ()
    server: tuple[ServerCheck, ...] = ()
