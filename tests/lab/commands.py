"""Calling programs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence


class LabError(Exception):
    """The lab cannot do what was asked; the text says why and what to do."""


def call(*argv: str, stdin: bytes | None = None) -> str:
    """The output of a program that must succeed; LabError with its own words otherwise."""
    done = _run(argv, stdin)
    if done is None:
        raise LabError(f"This machine lacks {argv[0]}. Run ./scripts/setup.")
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise LabError(f"{' '.join(argv)}: {said or f'exit code {done.returncode}'}")
    return done.stdout.decode()


def attempt(*argv: str) -> bool:
    """Whether a program is there and succeeded; for undoing what may not have been done."""
    done = _run(argv)
    return done is not None and done.returncode == 0


def missing(programs: Sequence[str]) -> list[str]:
    """Those of the programs that this machine does not have."""
    return [name for name in programs if shutil.which(name) is None]


def _run(argv: Sequence[str], stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes] | None:
    try:
        return subprocess.run(argv, input=stdin, capture_output=True, check=False)
    except FileNotFoundError:
        return None
