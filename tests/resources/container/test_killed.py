"""gpuplan killed at random moments of a replacement on a real engine, and asked again; with clients all the while.

GPUPLAN_KILLS sets how many kills there are (4 where it is not set); each is as good as its number, which seeds it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.fixtures import Lab

NODE = "gpu-a1"
KILLS = int(os.environ.get("GPUPLAN_KILLS", "4"))
PLAN = """
version: 1
name: killed
containers:
  web:
    nodes: gpu-a1
    image: lab/pause:1
    network: svc
    command: [httpd, -f, -p, "8080", -h, /etc]
    ready: {{ http: 8080/hostname }}
    labels: {{ generation: "{generation}" }}
    stop_timeout: 1s
    drain: 1s
    update: {update}
"""
ASK = r"printf 'GET /hostname HTTP/1.0\r\n\r\n' | nc -w 2 web 8080 | grep -q ' 200 OK'"
"""busybox's wget is not used, since the static one crashes on names."""
LOAD = f"while true; do if {ASK}; then echo ok; else echo failed; fi; sleep 0.02; done"
pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]


class Operator:
    """Runs the command in a process of its own, which can be killed."""

    def __init__(self, lab: Lab, base: Path, update: str) -> None:
        self.lab = lab
        self.base = base
        self.update = update
        host = lab.hosts[NODE]
        known = {
            "ansible_host": host.address,
            "ansible_user": host.user,
            "ansible_ssh_private_key_file": host.private_key,
            "ansible_ssh_common_args": host.ssh_arguments,
            "ansible_become": True,
        }
        (base / "inventory.yaml").write_text(json.dumps({"all": {"hosts": {NODE: known}}}))

    def want(self, generation: int) -> None:
        (self.base / "plan.yaml").write_text(PLAN.format(generation=generation, update=self.update))

    def begin(self) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "gpuplan", "apply", "plan.yaml", "-i", "inventory.yaml", "--auto-approve"]
        out = subprocess.PIPE
        return subprocess.Popen(argv, cwd=self.base, stdout=out, stderr=subprocess.STDOUT, text=True, bufsize=1)

    def apply(self) -> str:
        process = self.begin()
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, said
        return said

    def killed(self, within: float, chance: random.Random) -> bool:
        """Kill it at some moment of the replacement; False where it was done by then."""
        process = self.begin()
        assert process.stdout is not None
        for line in process.stdout:
            if "stop container" in line or "replace container" in line:
                break
        time.sleep(chance.uniform(0.0, within))
        process.send_signal(signal.SIGKILL)
        process.stdout.read()
        return process.wait(timeout=30) == -signal.SIGKILL

    def containers(self) -> dict[str, tuple[str, str]]:
        """Name → status and generation of each container of the plan file."""
        form = '["{{.Names}}", "{{.State}}", "{{.Label "generation"}}"]'
        argv = ["docker", "ps", "-a", "--filter", "label=gpuplan.plan=killed", "--format", form]
        rows = map(json.loads, self.lab.run(NODE, argv).stdout.splitlines())
        return {name: (state, generation) for name, state, generation in rows}

    def serves(self) -> bool:
        return self.lab.run(NODE, ["docker", "exec", "client", "sh", "-c", ASK], check=False).returncode == 0


@pytest.fixture(params=["stop-first", "start-first"])
def operator(request: pytest.FixtureRequest, lab: Lab, tmp_path: Path) -> Iterator[Operator]:
    """One container that serves, on a network where a client finds it by its name."""
    lab.wipe(NODE)
    lab.run(NODE, ["docker", "network", "create", "--subnet", "10.77.0.0/16", "svc"])
    lab.run(NODE, ["docker", "run", "-d", "--name", "client", "--network", "svc", "lab/pause:1", "sleep", "3000"])
    found = Operator(lab, tmp_path, request.param)
    found.want(0)
    found.apply()
    yield found
    lab.wipe(NODE)


def test_killed_at_random_moments(operator: Operator) -> None:
    chance = random.Random(f"{operator.update} {KILLS}")
    operator.want(1)
    began = time.monotonic()
    operator.apply()
    within = time.monotonic() - began
    cut = 0
    for number in range(2, 2 + (KILLS + 1) // 2):
        operator.want(number)
        was_killed = operator.killed(within, chance)
        cut += was_killed
        if operator.update == "start-first":
            assert operator.serves(), f"nobody serves after kill {number}: {operator.containers()}"
        before = operator.containers()
        said = operator.apply()
        assert operator.containers() == {"web": ("running", str(number))}, f"kill {number}: {before}\n{said}"
        assert operator.serves()
    assert "No changes" in operator.apply()
    assert cut, "no kill came in time"


@pytest.mark.parametrize("operator", ["start-first"], indirect=True)
def test_no_request_fails_while_one_takes_over(operator: Operator) -> None:
    start = ["docker", "run", "-d", "--name", "load", "--network", "svc", "lab/pause:1", "sh", "-c", LOAD]
    operator.lab.run(NODE, start)
    for generation in (1, 2):  # the first one had its name alone, the second one an alias as well
        operator.want(generation)
        operator.apply()
    asked = operator.lab.run(NODE, ["docker", "logs", "load"]).stdout.split()
    assert len(asked) > 30
    assert "failed" not in asked
