"""Which devices a request means."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.simulator.devices import GrantedDevice, UnknownDevice, requested
from gpuplan.simulator.state import (
    NodeState,
    SimulatedComputeInstance,
    SimulatedContainer,
    SimulatedGpu,
    SimulatedGpuInstance,
)

SLICED = SimulatedGpu(
    "A30",
    "GPU-0",
    "0",
    mig=True,
    pending=True,
    instances=[
        SimulatedGpuInstance(1, 5, 0, 2, [SimulatedComputeInstance(0, 1, 2, "MIG-a")]),
        SimulatedGpuInstance(
            2, 5, 2, 2, [SimulatedComputeInstance(0, 0, 1, "MIG-b"), SimulatedComputeInstance(1, 0, 1, "MIG-c")]
        ),
    ],
)
STATE = NodeState({}, "", "", "", 0.0, gpus=[SLICED, SimulatedGpu("A30", "GPU-1", "1")])
A, B, C = GrantedDevice(0, "MIG-a", 1, 0), GrantedDevice(0, "MIG-b", 2, 0), GrantedDevice(0, "MIG-c", 2, 1)
WHOLE = GrantedDevice(1, "GPU-1")


def asking(*requests: dict[str, Any]) -> SimulatedContainer:
    return SimulatedContainer("id", "name", 0.0, "image", {}, {"DeviceRequests": list(requests)})


@pytest.mark.parametrize(
    ("request_", "devices"),
    [
        ({"DeviceIDs": ["MIG-b"]}, (B,)),
        ({"DeviceIDs": ["0:2"]}, (C,)),
        ({"DeviceIDs": ["1", "MIG-a"]}, (WHOLE, A)),
        ({"DeviceIDs": ["GPU-1", "1"]}, (WHOLE,)),
        ({"Count": -1}, (A, B, C, WHOLE)),
        ({"Count": 1}, (A,)),
        ({}, ()),
    ],
)
def test_requests(request_: dict[str, Any], devices: tuple[GrantedDevice, ...]) -> None:
    assert requested(STATE, asking(request_)) == devices


@pytest.mark.parametrize("name", ["MIG-x", "GPU-2", "2", "0:3", "1:0", "all"])
def test_unknown_devices(name: str) -> None:
    with pytest.raises(UnknownDevice, match=name):
        requested(STATE, asking({"DeviceIDs": [name]}))
