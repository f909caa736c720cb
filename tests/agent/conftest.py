"""A node made of a directory, a small NVML and scripted servers, with an agent on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.support import AgentCaller, FakeNode


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path / "root")


@pytest.fixture
def agent(node: FakeNode) -> AgentCaller:
    return AgentCaller(node)
