"""Whole stories on a simulated node, through the real command."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.cli.command import Command

ROOT = Path(__file__).parents[2]
PLAN = str(ROOT / "plans" / "quickstart.yaml")
INVENTORY = str(ROOT / "inventories" / "simulated.yaml")
ON_NODES = (PLAN, "-i", INVENTORY)


@pytest.fixture
def applied(command: Command) -> None:
    assert command("apply", *ON_NODES, "--auto-approve").code == 0


def test_plan_apply_and_nothing_is_left(command: Command) -> None:
    first = command("plan", *ON_NODES, "--detailed-exitcode")
    assert first.code == 2
    assert "+ model/triton-large/sentiment" in first.out
    done = command("apply", *ON_NODES, "--auto-approve")
    assert done.code == 0
    assert "gpu-a1: 1/" in done.err
    again = command("plan", *ON_NODES, "--detailed-exitcode")
    assert (again.code, again.err) == (0, "")
    assert again.out.endswith("No changes. 1 node matches the plan file.\n")


@pytest.mark.usefixtures("applied")
def test_a_drift_check_is_silent_when_all_is_well(command: Command) -> None:
    assert command("drift-check", *ON_NODES) == command("drift-check", *ON_NODES)
    quiet = command("drift-check", *ON_NODES)
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    assert command("drift-check", *ON_NODES, "--verbose").out.startswith("In sync: 1 node matches the last apply.")


@pytest.mark.usefixtures("applied")
def test_what_the_plan_file_changed_is_pending_and_no_drift(command: Command) -> None:
    ran = command("drift-check", *ON_NODES, "--var", "triton=24.11", "--json")
    node = json.loads(ran.out)["nodes"][0]
    assert ran.code == 3
    assert node["drift"] == []
    assert "gpu-a1/container/triton-large" in node["pending"]


def test_many_nodes_without_changes_are_one_paragraph(command: Command) -> None:
    hardware = "{ ansible_connection: simulated, gpuplan_simulated: { gpus: [] } }"
    Path("plan.yaml").write_text("version: 1\nname: many\n")
    Path("inv.yaml").write_text("all:\n  hosts:\n" + "".join(f"    n{number}: {hardware}\n" for number in range(40)))
    many = ("plan.yaml", "-i", "inv.yaml")
    assert len(command("plan", *many).out.splitlines()) == 4
    assert command("apply", *many, "--auto-approve").out.startswith("n0, n1, n2 and 37 more\n")
    assert len(command("plan", *many, "--verbose").out.splitlines()) == 121
    assert command("drift-check", *many).out == ""


def test_a_saved_change_set_is_applied_once(command: Command) -> None:
    saved = command("plan", *ON_NODES, "--out", "changes")
    assert saved.code == 0
    assert "gpuplan apply changes" in saved.out
    assert Path("changes").stat().st_mode & 0o777 == 0o600
    assert command("apply", "changes", "--auto-approve").code == 0
    again = command("apply", "changes", "--auto-approve")
    assert again.code == 7
    assert "stale" in again.err


@pytest.mark.usefixtures("applied")
def test_destroy_removes_all_and_then_has_nothing_to_do(command: Command) -> None:
    gone = command("destroy", *ON_NODES, "--auto-approve")
    assert gone.code == 0
    again = command("destroy", *ON_NODES, "--auto-approve")
    assert again.code == 0
    assert "Nothing to destroy on 1 node." in again.out


def test_a_target_takes_what_it_needs(command: Command) -> None:
    ran = command("plan", *ON_NODES, "--target", "gpu-a1/container/triton-small", "--json")
    changes = {change["address"] for change in json.loads(ran.out)["nodes"][0]["changes"]}
    assert {"gpu-a1/container/triton-small", "gpu-a1/gpu/a100-0"} <= changes
    assert not [address for address in changes if "/model/" in address]


def test_a_target_that_matches_nothing_is_told(command: Command) -> None:
    ran = command("plan", *ON_NODES, "--target", "nowhere/*")
    assert "matches nothing" in ran.err
    assert "as the plan file says" not in ran.out


def test_only_containers_are_replaced(command: Command) -> None:
    ran = command("plan", *ON_NODES, "--replace", "gpu-a1/gpu/*")
    assert (ran.code, "No container of the plan file" in " ".join(ran.err.split())) == (64, True)
    assert command("plan", *ON_NODES, "--replace", "gpu-a1/container/*").code == 0


def test_on_a_terminal_it_asks_and_shows_progress(tmp_path: Path) -> None:
    primary, secondary = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuplan", "apply", *ON_NODES],
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"},
        start_new_session=True,
    )
    os.close(secondary)
    seen = _read_until(primary, b"Only 'yes' is accepted: ")
    os.write(primary, b"yes\n")
    seen += _read_until(primary, b"Apply complete:")
    assert process.wait(timeout=60) == 0
    assert b"\x1b[" in seen
    assert b"Apply these changes?" in seen
    assert seen.count("✓".encode()) == seen.count(b"gpu-a1: \x1b[32m\xe2\x9c\x93")


def _read_until(terminal: int, text: bytes, seconds: float = 60.0) -> bytes:
    seen = b""
    deadline = time.monotonic() + seconds
    while text not in seen:
        assert time.monotonic() < deadline, seen.decode(errors="replace")
        try:
            seen += os.read(terminal, 65536)
        except OSError as gone:
            raise AssertionError(seen.decode(errors="replace")) from gone
    return seen


@contextlib.contextmanager
def _standing_still(state: Path) -> Iterator[None]:
    """Meanwhile no simulated node changes: a step that would change one waits."""
    with contextlib.ExitStack() as held:
        for lock in state.rglob("state.lock"):
            file = held.enter_context(lock.open("a"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _lines_until(stream: IO[str], text: str) -> str:
    seen = ""
    while text not in seen:
        line = stream.readline()
        assert line, seen
        seen += line
    return seen


@pytest.mark.usefixtures("applied")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interrupt_lets_the_step_end_and_says_what_is_left(
    command: Command, number: signal.Signals, code: int
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuplan", "destroy", *ON_NODES, "--auto-approve"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "gpu-a1: 1/" in process.stderr.readline()
    with _standing_still(Path(os.environ["GPUPLAN_STATE_DIR"])):
        process.send_signal(number)
        err = _lines_until(process.stderr, "finishing running steps")
    out, rest = process.communicate(timeout=60)
    err += rest
    assert process.returncode == code
    assert "finishing running steps" in err
    assert "Traceback" not in err
    assert "steps skipped (interrupted)" in out or "(skipped: interrupted)" in out
    assert err.count("Error: Interrupted") == 1
    assert command("plan", *ON_NODES, "--detailed-exitcode").code == 2
    assert command("apply", *ON_NODES, "--auto-approve").code == 0


SECRET = "not-to-be-seen-anywhere"
PRIVATE_PLAN = """\
version: 1
name: private
containers:
  web:
    nodes: all
    image: nvcr.io/nvidia/tritonserver:24.10-py3
    command: [sleep, infinity]
    env: { TOKEN: "Bearer ${env:TEST_TOKEN}", LOG: info }
"""


def test_a_secret_is_in_no_output_and_no_file(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TEST_TOKEN", SECRET)
    Path("private.yaml").write_text(PRIVATE_PLAN)
    private = ("private.yaml", "-i", INVENTORY)
    runs = [
        command("plan", *private),
        command("plan", *private, "--json"),
        command("plan", *private, "--out", "changes"),
        command("show", "changes"),
        command("apply", "changes", "--auto-approve", "--json"),
        command("drift-check", *private, "--json"),
    ]
    assert [ran.code for ran in runs] == [0, 0, 0, 0, 0, 0]
    monkeypatch.setenv("TEST_TOKEN", f"{SECRET}-2")
    runs += [command("plan", *private), command("apply", *private, "--auto-approve"), command("plan", *private)]
    assert "env.TOKEN" in runs[6].out
    assert [ran.code for ran in runs[6:]] == [0, 0, 0]
    for ran in runs:
        assert SECRET not in ran.out + ran.err
    for file in (Path("changes"), *tmp_path.rglob("record.json"), *tmp_path.rglob("journal.jsonl")):
        assert SECRET not in file.read_text()
