"""The two benches: a node of the simulation, and one of the lab."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplan.resources.container.apply import readiness
from gpuplan.transport.connect import connect
from gpuplan.types.inventory import Connection, Host
from tests.lab.fixtures import Lab
from tests.resources.container.bench import Bench


@pytest.fixture
def simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A simulated node with two GPUs."""
    monkeypatch.setenv("GPUPLAN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(readiness, "STEADY", 0.0)
    hardware = {"gpus": [{"model": "A100-SXM4-80GB", "count": 2}], "images": ["busybox:1.36"]}
    session = connect(Host("n", Connection.SIMULATED, simulated=hardware))
    yield Bench(session, tmp_path, "busybox:1.36")
    session.close()


@pytest.fixture
def real(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bare node of the lab with two GPUs."""
    monkeypatch.setattr(readiness, "STEADY", 0.0)
    lab.wipe("gpu-a1")
    session = connect(lab.hosts["gpu-a1"])
    yield Bench(session, tmp_path, "lab/pause:1")
    session.close()
    lab.wipe("gpu-a1")


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.lab)])
def bench(request: pytest.FixtureRequest) -> Bench:
    """Both, one after the other."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Bench)
    return found
