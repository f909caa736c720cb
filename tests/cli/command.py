"""Runs the real command in this process."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gpuplan.cli import main


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


class Command:
    """`command("plan", …)` → exit code, standard output, standard error."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *argv: str) -> Ran:
        self._capsys.readouterr()
        code = main(argv)
        captured = self._capsys.readouterr()
        return Ran(code, captured.out, captured.err)
