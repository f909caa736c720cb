"""A state directory of one's own for each test, and nodes in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuplan.simulator.faults import Faults
from gpuplan.simulator.session import SimulatedSession
from gpuplan.types.inventory import Connection, Host

Open = Callable[..., SimulatedSession]


@pytest.fixture(autouse=True)
def state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUPLAN_STATE_DIR", str(tmp_path))
    return tmp_path


def host(model: str = "A100-SXM4-80GB", count: int = 1, name: str = "sim", **more: object) -> Host:
    """A simulated host; `more` is whatever else gpuplan_simulated holds."""
    hardware = {"gpus": [{"model": model, "count": count}], **more}
    return Host(name, Connection.SIMULATED, simulated=hardware)


@pytest.fixture
def connected() -> Iterator[Open]:
    """Open sessions that are closed at the end of the test."""
    sessions: list[SimulatedSession] = []

    def connect(to: Host | None = None, faults: Faults | None = None) -> SimulatedSession:
        sessions.append(SimulatedSession(to or host(), faults))
        return sessions[-1]

    yield connect
    for session in sessions:
        session.close()
