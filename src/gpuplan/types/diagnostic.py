"""Diagnostics: what is wrong, where, why, and how to fix it; and the exit codes."""

from __future__ import annotations

import enum
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


class Severity(enum.Enum):
    """An error stops the command; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


class Exit(enum.IntEnum):
    """The exit codes, the same for every command."""

    DONE = 0
    ERROR = 1
    CHANGES = 2
    PENDING = 3
    UNREAD = 4
    BUSY = 5
    REFUSED = 6
    STALE = 7
    USAGE = 64


@dataclass(frozen=True, order=True)
class Location:
    """A place in a file that the operator wrote; line and column count from 1, 0 means the whole file."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Diagnostic:
    """One problem.

    `summary` contains no names from the plan file, so that users recognise it and can search for it; `detail` says in
    full sentences what is wrong and why; `fix` says what to do. A line of it that begins with four spaces is a command
    to run as it is.
    """

    summary: str
    detail: str = ""
    fix: str = ""
    where: Location | None = None
    address: str = ""
    """The address or the node that it is about."""
    severity: Severity = Severity.ERROR
    check: str = ""
    """The id of the lint check that found it (docs/checks.md), by which it can be silenced."""


class Problem(Exception):
    """Raised when an operation cannot continue; carries its diagnostics."""

    def __init__(self, diagnostics: Sequence[Diagnostic] | Diagnostic, exit_code: Exit = Exit.ERROR) -> None:
        self.diagnostics = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        self.exit_code = exit_code
        super().__init__("; ".join(f"{d.summary}: {d.detail}" for d in self.diagnostics))


class ConnectionLost(Problem):
    """The connection to a node was lost; it cannot be used again in this run."""


class Refused(Problem):
    """An operation of the agent failed on a node.

    `code` is one of those in docs/agent.md, such as ``in_use``; `text` is the message of NVML, Docker or the system.
    """

    def __init__(self, node: str, operation: str, code: str, text: str) -> None:
        self.operation = operation
        self.code = code
        self.text = text
        super().__init__(Diagnostic("An operation on the node failed", f"{operation}: {text}", address=node))


def internal_error(address: str, error: Exception, operation: str) -> Diagnostic:
    """The diagnostic for an exception that gpuplan does not handle: a bug."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return Diagnostic(
        "Internal error in gpuplan",
        f"{operation} failed with {type(error).__name__}: {error}{place}.",
        "Please report this bug, with the command and the output of gpuplan --version.",
        address=address,
    )


def errors_in(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The diagnostics that are errors, without the warnings."""
    return tuple(diagnostic for diagnostic in diagnostics if diagnostic.severity is Severity.ERROR)


def join_words(words: Iterable[str]) -> str:
    """“a, b and c”; “none” without words."""
    *first, last = [*words] or ["none"]
    return f"{', '.join(first)} and {last}" if first else last
