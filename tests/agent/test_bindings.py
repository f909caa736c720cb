"""Whichever of NVML's bindings a node has, its gpu probe is the same, letter by letter: bindings/*.yaml."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tests.agent.fake_nvml import FakeNvml, Instance
from tests.agent.support import AgentCaller

BINDINGS = Path(__file__).parent / "bindings"


def binding(name: str) -> FakeNvml:
    """A node's NVML by its file: two boards, of which the second is cut, used, and lacks a part."""
    stated = yaml.safe_load((BINDINGS / f"{name}.yaml").read_text("utf-8"))
    assert set(stated) == {"about", "as_bytes"}
    nvml = FakeNvml(boards=2, encode=stated["as_bytes"])
    board = nvml.boards[1]
    board.mig = True
    board.instances = [Instance(1, 19, 0), Instance(2, 9, 4, [0])]
    board.processes = [SimpleNamespace(pid=7, usedGpuMemory=99, gpuInstanceId=2, computeInstanceId=0)]
    nvml.faults["nvmlDeviceGetPowerManagementLimit"] = 3
    return nvml


@pytest.fixture
def expected() -> object:
    """What the probe says of that node."""
    return yaml.safe_load((BINDINGS / "expected" / "gpu.yaml").read_text("utf-8"))


@pytest.mark.parametrize("name", sorted(file.stem for file in BINDINGS.glob("*.yaml")))
def test_the_snapshot_is_the_same_for_each_binding(agent: AgentCaller, expected: object, name: str) -> None:
    agent.node.gpus = binding(name)
    assert json.loads(json.dumps(agent.value("gpu"))) == expected


def test_the_bindings_do_differ() -> None:
    """Without this, two files that say the same would prove nothing."""
    told = {type(nvml.nvmlDeviceGetUUID(nvml.boards[0])) for nvml in map(binding, ("str", "bytes"))}
    assert told == {str, bytes}
