"""Models that are served from where they lie, on the simulation and on the real server: of a node, and of a bucket."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuplan.transport.connect import connect
from gpuplan.types.inventory import Connection, Host
from gpuplan.types.value import JsonObject
from tests.e2e.commands import NGC, Operator, ensemble_model, python_model
from tests.lab.bucket import KEY, bucket
from tests.lab.fixtures import Lab
from tests.lab.place import TRITON

NODE = "gpu-h1"
HEAD = """
version: 1
name: theirs
containers:
  triton:
    nodes: gpu-h1
    image: {image}
    pull: never
    shm_size: 256MiB
    ports: {{ http: 8000 }}
    env: {{ AWS_ACCESS_KEY_ID: "${{env:S3_KEY}}", AWS_SECRET_ACCESS_KEY: "${{env:S3_WORD}}", AWS_DEFAULT_REGION: here }}
    triton: {{ repository: "{repository}" }}
models:
"""
Printed = Callable[[], tuple[str, str]]

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Side:
    """One of the two sides."""

    operator: Operator
    host: Host
    image: str
    disk: Path
    """The node's own disk."""
    bucket: Path
    """A bucket called `models`."""
    address: str
    """Its address."""

    def plan(self, models: str, repository: str) -> None:
        """Write a plan file with these models."""
        self.operator.plan_file(HEAD.format(image=self.image, repository=repository) + models)

    def restart(self) -> None:
        """Start the server anew, and wait until it answers."""
        session = connect(self.host)
        session.docker().restart("triton", timeout=5)
        session.close()
        self.operator.await_read()


@pytest.fixture
def simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Printed) -> Side:
    monkeypatch.setenv("GPUPLAN_STATE_DIR", str(tmp_path / "state"))
    hardware: JsonObject = {"gpus": [{"model": "H100-SXM5-80GB"}], "images": [NGC]}
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(
        f"all:\n  hosts:\n    {NODE}:\n      ansible_connection: simulated\n"
        f"      gpuplan_simulated: {{ gpus: [{{ model: H100-SXM5-80GB }}], images: ['{NGC}'] }}\n"
    )
    root = tmp_path / f"state/simulated/{NODE}/root"
    host = Host(NODE, Connection.SIMULATED, simulated=hardware)
    operator = Operator(tmp_path, inventory, printed)
    return Side(operator, host, NGC, root / "disk", root / "buckets/s3/models", "s3://models/prod")


@pytest.fixture
def real(lab: Lab, tmp_path: Path, printed: Printed) -> Iterator[Side]:
    lab.wipe(NODE)
    operator = Operator(tmp_path, lab.only(NODE, tmp_path), printed)
    with bucket(tmp_path / "buckets", here(lab.hosts[NODE].address)) as port:
        address = f"s3://http://{here(lab.hosts[NODE].address)}:{port}/models/prod"
        shutil.rmtree(lab.root(NODE) / "mnt/models", ignore_errors=True)
        yield Side(operator, lab.hosts[NODE], TRITON, lab.root(NODE), tmp_path / "buckets/models", address)
    lab.wipe(NODE)
    shutil.rmtree(lab.root(NODE) / "mnt/models", ignore_errors=True)


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    return lambda: tuple(capsys.readouterr())


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.lab)])
def side(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Side:
    monkeypatch.setenv("S3_KEY", KEY)
    monkeypatch.setenv("S3_WORD", "open sesame")
    found: Side = request.getfixturevalue(request.param)
    return found


def here(node: str) -> str:
    """The address of this machine as a node sees it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((node, 9))
        return str(probe.getsockname()[0])


def test_a_directory_of_the_node(side: Side) -> None:
    operator, models = side.operator, side.disk / "mnt/models"
    python_model(models / "one", {1: 1})
    python_model(models / "two", {1: 2, 2: 3})
    ensemble_model(models / "ens")
    two = "  two: { containers: [triton], versions: [1, 2], config: { max_batch_size: 2 } }\n"
    side.plan("  ens: { containers: [triton] }\n" + two, "/mnt/models")
    operator.apply()
    operator.settled()
    side.restart()
    lost = operator.changes()
    assert list(lost) == ["model/triton/two"]
    assert "its config override was lost" in lost["model/triton/two"]["reasons"][0]
    code, text = operator.run("drift-check")
    assert (code, "Drift: 1 on 1 node." in text) == (2, True)
    operator.apply()
    operator.settled()
    side.plan("  ens: { containers: [triton] }\n  two: { containers: [triton] }\n", "/mnt/models")
    assert operator.changes()["model/triton/two"]["interrupts"]
    operator.apply()
    side.plan("  two: { containers: [triton] }\n", "/mnt/models")
    operator.apply()
    operator.settled()
    assert operator.run("destroy", "--auto-approve")[0] == 0
    assert sorted(each.name for each in models.iterdir()) == ["ens", "one", "two"]


def test_what_is_not_there_is_told_apart(side: Side) -> None:
    operator, models = side.operator, side.disk / "mnt/models"
    python_model(models / "one", {1: 1})
    side.plan("  one: { containers: [triton] }\n  gone: { containers: [triton] }\n", "/mnt/models")
    text = operator.apply(expected=1)
    assert "The model is not in the repository" in text
    (change,) = operator.changes().values()
    assert change["reasons"] == ["the model is not in /mnt/models on the node"]
    python_model(models / "gone", {1: 1})
    operator.apply()
    operator.settled()


def test_a_directory_that_is_not_on_the_node(side: Side) -> None:
    side.plan("  one: { containers: [triton] }\n", "/mnt/nothing")
    assert "A directory is not on the node" in side.operator.apply(expected=1)
    assert not (side.disk / "mnt/nothing").exists()


def test_a_bucket(side: Side) -> None:
    operator = side.operator
    python_model(side.bucket / "prod/a", {1: 1, 2: 2})
    side.plan("  a: { containers: [triton], versions: [1, 2] }\n", side.address)
    operator.apply()
    operator.settled()
    side.plan("  a: { containers: [triton], versions: [2] }\n", side.address)
    (change,) = operator.changes().values()
    assert [field["path"] for field in change["fields"]] == ["versions.1", "override"]
    assert "version 1 of a on triton stops serving" in change["interrupts"][0]
    operator.apply()
    operator.settled()
