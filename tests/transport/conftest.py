"""Fixtures of the transport's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplan.transport import bundle, pipe
from tests.agent.support import FakeNode


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Agents that bear two seconds of silence while they hold the lock; sessions that give signs of life in time."""
    monkeypatch.setattr(bundle, "LOCK_TIMEOUT", 2.0)
    monkeypatch.setattr(pipe, "KEEPALIVE_INTERVAL", 0.2)
    bundle.agent_program.cache_clear()
    yield
    bundle.agent_program.cache_clear()


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path / "root")
