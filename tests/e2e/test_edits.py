"""Twenty models with three ensembles through a random sequence of edits: after each apply the index equals the plan."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gpuplan.cli import main
from tests.e2e.fleet import Fleet
from tests.lab.fixtures import Lab

EDITS = int(os.environ.get("GPUPLAN_EDITS", "12"))
"""How many; two hundred are a matter of minutes, and meant for whoever has changed how models are loaded."""
SEED = os.environ.get("GPUPLAN_SEED", "1")
NODE = "gpu-h1"
HEAD = {
    "version": 1,
    "name": "fleet",
    "containers": {
        "triton": {
            "nodes": NODE,
            "image": "lab/tritonserver:24.10-py3",
            "ports": {"http": 8000},
            "shm_size": "1GiB",
            "triton": {},
        }
    },
}

pytestmark = [pytest.mark.lab, pytest.mark.timeout(60 + 20 * EDITS)]


@pytest.fixture
def fleet(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    lab.wipe(NODE)
    monkeypatch.chdir(tmp_path)
    yield Fleet(tmp_path, HEAD, "triton", Random(SEED))
    lab.wipe(NODE)


def test_the_index_equals_the_plan_after_every_edit(lab: Lab, fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    address = f"http://{lab.hosts[NODE].address}:8000/v2"
    inventory, container = str(lab.only(NODE, fleet.root)), ""
    for number in range(EDITS + 1):
        edit = fleet.edit() if number else "the first apply"
        code = main(["apply", "fleet.yaml", "-i", inventory, "--auto-approve"])
        said = capsys.readouterr()
        assert code == 0, f"{number}: {edit}\n{said.out}{said.err}"
        assert ready(address) == fleet.expected(), f"{number}: {edit}\n{said.out}"
        for name in fleet.rng.sample(sorted(fleet.expected()), 3):
            assert answer(address, name) == fleet.adds(name), f"{number}: {edit}: {name}\n{said.out}"
        code = main(["plan", "fleet.yaml", "-i", inventory, "--detailed-exitcode"])
        assert code == 0, f"{number}: {edit}\n{capsys.readouterr().out}"
        runs = lab.run(NODE, ["docker", "ps", "-q", "--no-trunc"]).stdout
        assert container in ("", runs), f"{number}: {edit}: the container was replaced\n{said.out}"
        container = runs


def ready(address: str) -> dict[str, tuple[int, ...]]:
    """Model → its READY versions, by the server's own word."""
    found: dict[str, list[int]] = {}
    for each in ask(f"{address}/repository/index", {"ready": True}):
        found.setdefault(each["name"], []).append(int(each["version"]))
    return {name: tuple(sorted(versions)) for name, versions in found.items()}


def answer(address: str, model: str) -> int:
    """What a model adds to zero."""
    tensor = {"name": "IN", "shape": [1, 1], "datatype": "INT32", "data": [[0]]}
    return int(ask(f"{address}/models/{model}/infer", {"inputs": [tensor]})["outputs"][0]["data"][0])


def ask(url: str, body: dict[str, Any]) -> Any:
    """A question to the server, answered with JSON."""
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode()), timeout=10) as found:
        return json.load(found)
