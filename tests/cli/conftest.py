"""A command to run, in a state directory and a folder of its own."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.command import Command

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # what is tested is a terminal that closes, not nohup around the tests


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("GPUPLAN_INVENTORY", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("GPUPLAN_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)
