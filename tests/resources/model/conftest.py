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
from tests.resources.model.triton_node import PLAN, SERVER, TritonNode

IMAGE = "nvcr.io/nvidia/tritonserver:24.10-py3"
HOME = f"plans/{PLAN}/triton/{SERVER}"


@pytest.fixture
def simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TritonNode]:
    """A simulated node with a model server that runs."""
    monkeypatch.setenv("GPUPLAN_STATE_DIR", str(tmp_path / "state"))
    hardware: JsonObject = {"gpus": [{"model": "A30"}], "images": [IMAGE]}
    session = connect(Host("n", Connection.SIMULATED, simulated=hardware))
    triton = TritonNode(session, tmp_path, IMAGE)
    triton.serve()
    (root,) = tmp_path.glob(f"state/**/{HOME}")
    triton.on_node = root
    yield triton
    session.close()


@pytest.fixture
def real(lab: Lab, tmp_path: Path) -> Iterator[TritonNode]:
    """A node of the lab with the real Triton."""
    lab.wipe("gpu-h1")
    session = connect(lab.hosts["gpu-h1"])
    triton = TritonNode(session, tmp_path, TRITON)
    triton.serve()
    triton.on_node = lab.root("gpu-h1") / "var/lib/gpuplan" / HOME
    yield triton
    session.close()
    lab.wipe("gpu-h1")


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.lab)])
def triton(request: pytest.FixtureRequest) -> TritonNode:
    """Both, one after the other: what holds here must hold there."""
    found: TritonNode = request.getfixturevalue(request.param)
    return found
