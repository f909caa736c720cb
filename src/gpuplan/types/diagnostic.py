"""Diagnostics: a problem with what, where, why, and what to do."""

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

    `summary` holds no names of the operator's, so that people learn to recognise it; `detail` is a full
    sentence that says what is wrong and why; `fix` says what to do. A row of it that begins with four spaces is a
    command to run as it stands.
    """

    summary: str
    detail: str = ""
    fix: str = ""
    where: Location | None = None
    address: str = ""
    """The address or the node it is about."""
    severity: Severity = Severity.ERROR
    check: str = ""
    """The id of the check that found it (docs/checks.md), by which it can be silenced; empty where none did."""


class Problem(Exception):
    """Raised if work cannot continue; carries all diagnostics for the operator."""

    def __init__(self, diagnostics: Sequence[Diagnostic] | Diagnostic, exit_code: Exit = Exit.ERROR) -> None:
        self.diagnostics = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        self.exit_code = exit_code
        super().__init__("; ".join(f"{d.summary}: {d.detail}" for d in self.diagnostics))


class ConnectionLost(Problem):
    """The connection to a node ended in the middle of the work; nothing more can be asked of it in this run."""


class Refused(Problem):
    """A node refused or failed one operation of the agent.

    `code` is one of the words of docs/agent.md, such as ``in_use``; `text` is what NVML, the engine or the system said.
    """

    def __init__(self, node: str, operation: str, code: str, text: str) -> None:
        self.operation = operation
        self.code = code
        self.text = text
        super().__init__(Diagnostic("An operation on the node failed", f"{operation}: {text}", address=node))


def internal_error(node: str, fault: Exception, doing: str) -> Diagnostic:
    """What is said of an exception that no part of gpuplan expected."""
    frames = traceback.extract_tb(fault.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return Diagnostic(
        "A fault in gpuplan",
        f"{doing} failed in a way that nobody foresaw: {type(fault).__name__}: {fault}{place}.",
        "Please report this, with the command and what gpuplan --version says.",
        address=node,
    )


def errors_in(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The diagnostics that are errors, without the warnings."""
    return tuple(each for each in diagnostics if each.severity is Severity.ERROR)


def join_words(words: Iterable[str]) -> str:
    """“a, b and c”; “none” without words."""
    *first, last = [*words] or ["none"]
    return f"{', '.join(first)} and {last}" if first else last
