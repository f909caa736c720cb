"""Re-partitioning on real parts: who serves goes on serving, what cannot fit is refused, a killed run is finished."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import gpuplan
from tests.lab.fixtures import Lab

HERE = Path(__file__).parent
MODELS = HERE.parents[1] / "plans" / "models"
NODE = "gpu-a1"
IDLE = "mid: 2g.20gb"
GROWN = "s: { profile: 1g.10gb, count: 2 }"
SLOW = ("nvmlGpuInstanceDestroy", "nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlComputeInstanceDestroy")
MIG_ON = "import pynvml as n; n.nvmlInit(); n.nvmlDeviceSetMigMode(n.nvmlDeviceGetHandleByIndex(0), 1)"
"""The mode of an A100 is a matter of resets, and of other tests."""
PATIENCE = 30.0
"""Seconds within which a node must have noticed that the other side was killed."""

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]


class Operator:
    """Somebody with a plan file who runs gpuplan as a program of its own."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self._lab, self._folder = lab, folder
        shutil.copy(HERE / "grow.yaml", folder)
        shutil.copytree(MODELS / "tokenizer", folder / "models" / "tokenizer")

    def edit(self, old: str, new: str) -> None:
        """Change the plan file."""
        file = self._folder / "grow.yaml"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    def start(self, verb: str, *more: str) -> subprocess.Popen[str]:
        """The program, running."""
        line = [sys.executable, "-m", "gpuplan", verb, "grow.yaml", "-i", str(self._lab.inventory), *more]
        source = str(Path(gpuplan.__file__).parents[1])
        return subprocess.Popen(
            line,
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": source},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, verb: str, *more: str) -> tuple[int, str]:
        """Exit code and everything that it printed."""
        process = self.start(verb, *more)
        printed, _ = process.communicate(timeout=300)
        return process.returncode, printed

    def apply(self) -> None:
        """Apply; a node whose lock is still held by a run that was killed lets go of it soon."""
        deadline = time.monotonic() + PATIENCE
        while True:
            code, printed = self.run("apply", "--auto-approve")
            if code == 0:
                return
            assert code == 5, printed
            assert time.monotonic() < deadline, printed
            time.sleep(0.5)


class Load(threading.Thread):
    """One request after another to the server, on one connection, until it is told to stop."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._address, self._stop_it = address, threading.Event()
        self.served, self.failures = 0, list[str]()

    def run(self) -> None:
        """Ask, and note what was no right answer."""
        tensor = {"name": "TEXT", "shape": [1, 1], "datatype": "BYTES", "data": [["so it goes"]]}
        body = json.dumps({"inputs": [tensor]})
        connection = http.client.HTTPConnection(self._address, 8000, timeout=10)
        while not self._stop_it.is_set():
            try:
                connection.request("POST", "/v2/models/tokenizer/infer", body)
                answer = connection.getresponse()
                text = answer.read()
                if answer.status != 200 or json.loads(text)["outputs"][0]["name"] != "TOKENS":
                    self.failures.append(f"{answer.status}: {text[:200]!r}")
                self.served += 1
            except (OSError, http.client.HTTPException, ValueError) as fault:
                self.failures.append(repr(fault))
                connection.close()
            time.sleep(0.005)

    def stop(self) -> None:
        """End it, and wait until it has ended."""
        self._stop_it.set()
        self.join(timeout=15)


@pytest.fixture
def operator(lab: Lab, tmp_path: Path) -> Iterator[Operator]:
    """An operator before a bare node."""
    lab.wipe(NODE)
    lab.nvml(NODE, "clear-faults")
    lab.run(NODE, ["python3", "-c", MIG_ON])
    yield Operator(lab, tmp_path)
    lab.nvml(NODE, "clear-faults")
    lab.wipe(NODE)


def slices(lab: Lab) -> list[tuple[str, ...]]:
    """The instances of the first GPU as the driver's state has them: profile, start, size."""
    text = (lab.root(NODE) / "var/lib/nvmlsim/state").read_text()
    found = [line.split() for line in text.splitlines() if line.startswith("gi 0 ")]
    return sorted(tuple(words[3:6]) for words in found)


def server(lab: Lab) -> str:
    """Identity of the serving container: its id, when it was started, and which device it has."""
    form = "{{.Id}} {{.State.StartedAt}} {{.HostConfig.DeviceRequests}}"
    return lab.run(NODE, ["docker", "inspect", "-f", form, "serving"]).stdout


def test_a_busy_slice_serves_on_while_the_idle_one_beside_it_is_cut_anew(lab: Lab, operator: Operator) -> None:
    operator.apply()
    before = server(lab)
    operator.edit(IDLE, GROWN)
    load = [Load(lab.hosts[NODE].address) for _ in range(2)]
    for each in load:
        each.start()
    try:
        operator.apply()
        time.sleep(1)  # it must serve afterwards as well
    finally:
        for each in load:
            each.stop()
    assert [each.failures for each in load] == [[], []]
    assert all(each.served > 50 for each in load)
    assert server(lab) == before
    assert slices(lab) == [("19", "4", "1"), ("19", "5", "1"), ("5", "0", "4")]
    assert operator.run("plan", "--detailed-exitcode")[0] == 0


def test_what_cannot_fit_is_refused_before_anything_is_touched(lab: Lab, operator: Operator) -> None:
    operator.apply()
    state = (lab.root(NODE) / "var/lib/nvmlsim/state").read_text()
    journal = lab.root(NODE) / "var/lib/gpuplan/plans/grow/journal.jsonl"
    told, before = journal.read_text(), server(lab)
    operator.edit(IDLE, "s: { profile: 1g.10gb, count: 5 }")
    code, printed = operator.run("apply", "--auto-approve")
    assert code == 1
    assert "memory slices 9/8 and compute slices 9/7" in " ".join(printed.replace("│", " ").split())
    assert (lab.root(NODE) / "var/lib/nvmlsim/state").read_text() == state
    assert (journal.read_text(), server(lab)) == (told, before)


def killed_at(operator: Operator, step: int) -> bool:
    """Start an apply and kill it, uncaught, when it begins its n-th step; False where it ends before."""
    process = operator.start("apply", "--auto-approve")
    assert process.stdout is not None
    for line in process.stdout:
        if f"{NODE}: {step}/" in line:
            process.kill()
            process.communicate(timeout=30)
            return True
    assert process.wait(timeout=30) == 0
    return False


def killings(operator: Operator, first: tuple[str, str], here: Callable[[], None], there: Callable[[], None]) -> int:
    """Go there and back again and again, killed at each step in turn and finished by the next run; how many steps."""
    operator.apply()
    here()
    step, killed = 0, True
    while killed:
        step, killed = step + 1, False
        for edit, as_planned in ((first, there), ((first[1], first[0]), here)):
            operator.edit(*edit)
            killed = killed_at(operator, step) or killed
            operator.apply()
            as_planned()
    return step - 1


def test_a_run_that_was_killed_at_any_step_is_finished_by_the_next(lab: Lab, operator: Operator) -> None:
    """The driver takes its time, so that a kill hits it in the middle of an act as well."""
    for function in SLOW:
        lab.nvml(NODE, "delay", function, "200")
    operator.apply()
    before = server(lab)

    def idle() -> None:
        assert (slices(lab), server(lab)) == ([("14", "4", "2"), ("5", "0", "4")], before)

    def grown() -> None:
        assert (slices(lab), server(lab)) == ([("19", "4", "1"), ("19", "5", "1"), ("5", "0", "4")], before)

    assert killings(operator, (IDLE, GROWN), idle, grown) == 3
    assert operator.run("plan", "--detailed-exitcode")[0] == 0


def test_a_move_of_the_serving_slice_that_was_killed_is_finished_by_the_next(lab: Lab, operator: Operator) -> None:
    """Two halves become 4g, 2g and 1g: the server has to follow, and serves at the end of every story."""
    halves, pieces = "{ big: 3g.40gb, right: 3g.40gb }", "{ big: 4g.40gb, two: 2g.20gb, one: 1g.10gb }"
    operator.edit("{ big: 4g.40gb, mid: 2g.20gb }", halves)

    def serves(expected: list[tuple[str, ...]]) -> None:
        assert slices(lab) == expected
        load = Load(lab.hosts[NODE].address)
        load.start()
        time.sleep(0.3)
        load.stop()
        assert (load.failures, load.served > 3) == ([], True)

    def here() -> None:
        serves([("9", "0", "4"), ("9", "4", "4")])

    def there() -> None:
        serves([("14", "4", "2"), ("19", "6", "1"), ("5", "0", "4")])

    assert killings(operator, (halves, pieces), here, there) > 5
    assert operator.run("plan", "--detailed-exitcode")[0] == 0
