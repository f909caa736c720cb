"""Whatever happens inside a verb ends in one message and an exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuplan.cli import inputs
from tests.cli.command import Command


def raising(error: BaseException):
    def fail(*args: object) -> None:
        raise error

    return fail


def test_an_unforeseen_failure_is_one_message_and_a_private_file(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(inputs, "read_plan_file", raising(RuntimeError("the moon\x1b[2J")))
    ran = command("validate", "plan.yaml")
    assert ran.code == 1
    assert "Traceback" not in ran.err
    assert r"RuntimeError: the moon\x1b[2J" in ran.err
    (kept,) = (tmp_path / "state").glob("crash-*.txt")
    assert kept.name in ran.err.replace("\n│   ", "")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "in read_plan_file" not in ran.err
    assert "Traceback" in kept.read_text()


def test_an_unforeseen_failure_where_nothing_can_be_kept(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "state").write_text("a file is in the way")
    monkeypatch.setattr(inputs, "read_plan_file", raising(RuntimeError("the moon")))
    ran = command("validate", "plan.yaml", "--json")
    assert ran.code == 1
    assert "No crash report could be written" in json.loads(ran.out)["diagnostics"][0]["fix"]


def test_an_interrupt_has_its_own_code(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "read_plan_file", raising(KeyboardInterrupt()))
    ran = command("validate", "plan.yaml")
    assert (ran.code, ran.out) == (130, "")
    assert ran.err == "\nInterrupted. Nothing was changed.\n"


def test_a_reader_that_leaves_is_no_news() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuplan", "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    _, told = process.communicate(timeout=60)
    assert told == ""
    assert process.returncode == 1


def test_a_terminal_without_arrows_gets_question_marks() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "gpuplan", "plan", "absent.yaml", "-i", "absent.yaml"],
        check=False,
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert ran.returncode == 1
    assert b"Traceback" not in ran.stderr
    assert b"? " in ran.stderr


def test_help_needs_nothing_that_is_slow() -> None:
    code = "import sys; from gpuplan.cli import main; main(['--help']); print(*sorted(sys.modules), file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(ran.stderr.split())
    slow = {"rich", "pydantic", "yaml", "paramiko", "docker", "tritonclient", "google.protobuf", "platformdirs"}
    assert loaded & slow == set()
    assert "gpuplan.cli.plan" in loaded
