"""Why a program did not start on a node, told from its exit status and what sudo, the shell or Python said."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuplan.types.diagnostic import Diagnostic


class Reason(NamedTuple):
    """A pattern of the words on standard error, and what they mean."""

    said: str
    summary: str
    fix: str


SUDO_FIX = (
    "Give the user that gpuplan logs in as a rule without a password (USER ALL=(root) NOPASSWD: ALL, with visudo), "
    "or set ansible_become: false."
)
REASONS = (
    Reason(
        r"sudo: (.*a password is required|.*a terminal is required|no tty present|.*must have a tty)",
        "sudo asks for a password",
        SUDO_FIX,
    ),
    Reason(
        r"not in the sudoers|not allowed to (run|execute)|may not run sudo|sudo: .*not permitted",
        "sudo is refused",
        SUDO_FIX,
    ),
    Reason(
        r"sudo: [^\n]*python[^\n]*: command not found|"
        r"env: [^\n]*python[^\n]*(No such file|not found|Permission denied)",
        "Python is missing on the node",
        "Install Python 3.8 or later there, or name it with ansible_python_interpreter.",
    ),
    Reason(
        r"env: [^\n]*sudo[^\n]*(No such file|not found)",
        "sudo is missing on the node",
        "Install sudo there, or log in as root and set ansible_become: false.",
    ),
    Reason(
        r"This account is (currently )?not available|This service allows|nologin",
        "The user has no shell on the node",
        "Use a user with a login shell, or give this one a shell (chsh).",
    ),
)


def explain_start(node: str, status: int | None, complaint: str) -> Diagnostic:
    """The diagnostic for a program that ended before its first word."""
    said = complaint.strip()
    detail = f"The node said: {said[-500:]}" if said else f"It ended with status {status} and said nothing."
    for reason in REASONS:
        if re.search(reason.said, said, re.IGNORECASE):
            return Diagnostic(reason.summary, detail, reason.fix, address=node)
    return Diagnostic(
        "The agent does not start",
        detail,
        "Run `python3 -c 'print(1)'` there by hand, under sudo where ansible_become is set.",
        address=node,
    )
