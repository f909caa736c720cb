"""A standard output or standard error that takes nothing: one plain message, exit code 1, and nothing is done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ON_NODES = f"{ROOT}/plans/quickstart.yaml -i {ROOT}/inventories/simulated.yaml"
GPUPLAN = f"{sys.executable} -m gpuplan"
VERBS = ["--help", "--version", "schema", f"validate {ON_NODES}", f"plan {ON_NODES}", f"plan {ON_NODES} --json"]


def run(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", line], check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("redirection", "says"),
    [
        (
            ">&-",
            "gpuplan: standard output is closed, so nothing was done; redirect to /dev/null to discard output.\n",
        ),
        ("> /dev/full", "gpuplan: cannot write to standard output: No space left on device.\n"),
    ],
)
def test_a_result_that_cannot_be_told(verb: str, redirection: str, says: str) -> None:
    ran = run(f"{GPUPLAN} {verb} {redirection}")
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", says)


@pytest.mark.parametrize("verb", ["plan absent.yaml -i absent.yaml", "nonsense"])
@pytest.mark.parametrize(
    ("redirection", "says"),
    [
        (
            "2>&-",
            "gpuplan: standard error is closed, so nothing was done; redirect to /dev/null to discard output.\n",
        ),
        ("2> /dev/full", "gpuplan: cannot write to standard error: No space left on device.\n"),
    ],
)
def test_a_problem_that_cannot_be_told(verb: str, redirection: str, says: str) -> None:
    ran = run(f"{GPUPLAN} {verb} {redirection}")
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, says, "")


def test_both() -> None:
    for redirection in (">&- 2>&-", "> /dev/full 2>&1"):
        assert run(f"{GPUPLAN} plan {ON_NODES} {redirection}").returncode == 1


def test_without_standard_input_nobody_is_asked() -> None:
    ran = run(f"{GPUPLAN} apply {ON_NODES} <&-")
    assert ran.returncode == 64
    assert "stdin is not a terminal" in ran.stderr


def test_a_full_disk_is_found_before_anything_is_changed(tmp_path: Path) -> None:
    ran = run(f"{GPUPLAN} apply {ON_NODES} --auto-approve > /dev/full")
    assert (ran.returncode, ran.stderr) == (
        1,
        "gpuplan: cannot write to standard output: No space left on device.\n",
    )
    assert "create" in run(f"{GPUPLAN} plan {ON_NODES}").stdout
    assert os.environ["GPUPLAN_STATE_DIR"].startswith(str(tmp_path))
