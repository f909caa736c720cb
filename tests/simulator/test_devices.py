"""Which devices a request means."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.simulator.devices import Device, UnknownDevice, requested
from gpuplan.simulator.state import Compute, Container, Gpu, Instance, NodeState

SLICED = Gpu("A30", "GPU-0", "0", mig=True, pending=True, instances=[
    Instance(1, 5, 0, 2, [Compute(0, 1, 2, "MIG-a")]),
    Instance(2, 5, 2, 2, [Compute(0, 0, 1, "MIG-b"), Compute(1, 0, 1, "MIG-c")]),
])  # fmt: skip
STATE = NodeState({}, "", "", "", 0.0, gpus=[SLICED, Gpu("A30", "GPU-1", "1")])
A, B, C = Device(0, "MIG-a", 1, 0), Device(0, "MIG-b", 2, 0), Device(0, "MIG-c", 2, 1)
WHOLE = Device(1, "GPU-1")


def asking(*requests: dict[str, Any]) -> Container:
    return Container("id", "name", 0.0, "image", {}, {"DeviceRequests": list(requests)})


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
def test_requests(request_: dict[str, Any], devices: tuple[Device, ...]) -> None:
    assert requested(STATE, asking(request_)) == devices


@pytest.mark.parametrize("name", ["MIG-x", "GPU-2", "2", "0:3", "1:0", "all"])
def test_unknown_devices(name: str) -> None:
    with pytest.raises(UnknownDevice, match=name):
        requested(STATE, asking({"DeviceIDs": [name]}))
