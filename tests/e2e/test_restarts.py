"""A real server that is killed, restarted and rebooted, at rest and in the middle of applies, comes back as wanted."""

from __future__ import annotations

import json
import os
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.commands import Operator, ensemble_model, python_model
from tests.lab.fixtures import Lab
from tests.lab.place import TRITON

NODE = "gpu-h1"
HEAD = """
version: 1
name: restarts
containers:
  triton:
    nodes: gpu-h1
    image: {image}
    pull: never
    shm_size: 256MiB
    restart: unless-stopped
    ports: {{ http: 8000 }}
    triton: {{}}
models:
"""
KILLS = int(os.environ.get("GPUPLAN_KILLS", "3"))
"""How many at random moments; fifty are meant for whoever has changed how models are loaded."""
SEED = os.environ.get("GPUPLAN_SEED", "20261130")
FRAGILE = 'import os; assert not os.path.exists("/tmp/broken"), "weights not found"'

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300 + 60 * KILLS)]


class Fleet:
    """One model server on one node of the lab, and who runs it."""

    def __init__(self, lab: Lab, operator: Operator) -> None:
        self.lab, self.operator = lab, operator
        python_model(operator.folder / "one", {1: 1})
        python_model(operator.folder / "two", {1: 2}, FRAGILE)
        python_model(operator.folder / "three", {1: 3})
        ensemble_model(operator.folder / "ens")

    def wants(self, *models: str) -> None:
        """Write a plan file with these models."""
        lines = [f"  {name}: {{ source: {name}, containers: [triton] }}\n" for name in models]
        self.operator.plan_file(HEAD.format(image=TRITON) + "".join(lines))

    def inspect(self, path: str) -> str:
        """One field of the container."""
        return self.lab.run(NODE, ["docker", "inspect", "-f", f"{{{{.{path}}}}}", "triton"]).stdout.strip()

    def kill(self) -> None:
        """Kill the server's process as the kernel would for want of memory; the engine starts the container again."""
        pid = self.inspect("State.Pid")
        if pid not in ("", "0"):
            self.lab.run(NODE, ["kill", "-KILL", pid], check=False)

    def ready(self) -> set[str]:
        """The models that are READY, by the server's own word."""
        found = self._ask("POST", "/v2/repository/index")
        return {entry["name"] for entry in json.loads(found) if entry.get("state") == "READY"}

    def is_ready(self) -> bool:
        """What a load balancer is told."""
        try:
            self._ask("GET", "/v2/health/ready")
        except urllib.error.HTTPError:
            return False
        return True

    def _ask(self, method: str, path: str) -> bytes:
        url = f"http://{self.lab.hosts[NODE].address}:8000{path}"
        body = b"{}" if method == "POST" else None
        with urllib.request.urlopen(urllib.request.Request(url, body, method=method), timeout=10) as answer:
            return bytes(answer.read())


@pytest.fixture
def fleet(lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Fleet]:
    lab.wipe(NODE)
    yield Fleet(lab, Operator(tmp_path, lab.only(NODE, tmp_path), lambda: tuple(capsys.readouterr())))
    lab.wipe(NODE)


def test_it_comes_back_by_itself_in_the_same_container(fleet: Fleet) -> None:
    operator, models = fleet.operator, ("one", "two", "ens")
    fleet.wants(*models)
    operator.apply()
    container = fleet.inspect("Id")
    fleet.kill()
    operator.await_read()
    operator.settled()
    assert fleet.ready() == set(models)
    fleet.wants("one", "three")
    operator.apply()
    fleet.lab.reboot(NODE)
    operator.await_read()
    operator.settled()
    assert fleet.ready() == {"one", "three"}
    assert fleet.inspect("Id") == container


def test_one_that_is_broken_takes_nobody_along(fleet: Fleet) -> None:
    operator = fleet.operator
    fleet.wants("one", "two", "three")
    operator.apply()
    fleet.lab.run(NODE, ["docker", "exec", "triton", "touch", "/tmp/broken"])
    fleet.lab.run(NODE, ["docker", "restart", "triton"])
    operator.await_read()
    assert fleet.ready() == {"one", "three"}
    assert fleet.is_ready()
    (change,) = operator.changes().values()
    assert (change["address"], change["cause"]) == (f"{NODE}/model/triton/two", None)
    assert "weights not found" in change["reasons"][0]
    fleet.lab.run(NODE, ["docker", "exec", "triton", "rm", "/tmp/broken"])
    operator.apply()
    operator.settled()


def test_one_that_lost_all_is_one_finding(fleet: Fleet) -> None:
    operator = fleet.operator
    fleet.wants("one", "three")
    operator.apply()
    home = "/var/lib/gpuplan/plans/restarts/triton/triton/load-models"
    fleet.lab.run(NODE, ["truncate", "-s", "0", home])
    fleet.lab.run(NODE, ["docker", "restart", "triton"])
    operator.await_read()
    code, text = operator.run("drift-check")
    assert code == 2
    assert "0 of 2 models are loaded: triton was restarted at" in " ".join(text.split())
    assert "Drift: 1 on 1 node." in text
    operator.apply()
    operator.settled()


def test_a_kill_at_any_moment_ends_with_the_wanted_models(fleet: Fleet) -> None:
    operator, chance = fleet.operator, random.Random(SEED)
    fleet.wants("one")
    operator.apply()
    took = 3.0
    """Seconds that an apply takes here, so that a kill meets every part of one."""
    for turn in range(KILLS):
        python_model(operator.folder / "three", {1: turn})
        wanted = chance.sample(["one", "three"], chance.randint(1, 2)) + chance.choice([[], ["one", "two", "ens"]])
        fleet.wants(*dict.fromkeys(wanted))
        killer = threading.Timer(moment := chance.uniform(0.2, took), fleet.kill)
        killer.start()
        begun = time.monotonic()
        operator.run("apply", "--auto-approve")
        took = max(0.5, time.monotonic() - begun)
        killer.join()
        operator.converge()
        assert fleet.ready() == set(wanted), f"{turn}: killed after {moment:.1f} s of {took:.1f} s"
        operator.settled()
