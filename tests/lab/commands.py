"""Calling programs."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


class LabError(Exception):
    """The lab cannot do what was asked; the text says why and what to do."""


def call(*argv: str, stdin: bytes | None = None) -> str:
    """The output of a program that must succeed; LabError with its own words otherwise."""
    done = subprocess.run(argv, input=stdin, capture_output=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise LabError(f"{' '.join(argv)}: {said or f'exit code {done.returncode}'}")
    return done.stdout.decode()


def attempt(*argv: str) -> bool:
    """Whether a program succeeded; for undoing what may not be there."""
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def missing(programs: Sequence[str]) -> list[str]:
    """Those of the programs that this machine does not have."""
    return [name for name in programs if not attempt("sh", "-c", f"command -v {name}")]
