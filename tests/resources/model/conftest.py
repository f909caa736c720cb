"""The two benches: a node of the simulation, and one of the lab."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplan.transport.connect import connect
from gpuplan.types.inventory import Connection, Host
from gpuplan.types.value import JsonObject
from tests.lab.fixtures import Lab
from tests.lab.place import TRITON
from tests.resources.model.bench import PLAN, SERVER, Bench

IMAGE = "nvcr.io/nvidia/tritonserver:24.10-py3"
HOME = f"plans/{PLAN}/triton/{SERVER}"


@pytest.fixture
def simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A simulated node with a model server that runs."""
    monkeypatch.setenv("GPUPLAN_STATE_DIR", str(tmp_path / "state"))
    hardware: JsonObject = {"gpus": [{"model": "A30"}], "images": [IMAGE]}
    session = connect(Host("n", Connection.SIMULATED, simulated=hardware))
    bench = Bench(session, tmp_path, IMAGE)
    bench.serve()
    (root,) = tmp_path.glob(f"state/**/{HOME}")
    bench.on_node = root
    yield bench
    session.close()


@pytest.fixture
def real(lab: Lab, tmp_path: Path) -> Iterator[Bench]:
    """A node of the lab with the real Triton."""
    lab.wipe("gpu-h1")
    session = connect(lab.hosts["gpu-h1"])
    bench = Bench(session, tmp_path, TRITON)
    bench.serve()
    bench.on_node = lab.root("gpu-h1") / "var/lib/gpuplan" / HOME
    yield bench
    session.close()
    lab.wipe("gpu-h1")


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.lab)])
def bench(request: pytest.FixtureRequest) -> Bench:
    """Both, one after the other: what holds here must hold there."""
    found: Bench = request.getfixturevalue(request.param)
    return found
