"""Both sides of the contract."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuplan.transport.connect import connect
from gpuplan.types.inventory import Connection, Host
from tests.contract.node import Node
from tests.lab.place import PAUSE, TRITON

IMAGES = ("nvcr.io/nvidia/tritonserver:24.10-py3", "busybox:1.36")
HARDWARE = {"gpus": [{"model": "H100-SXM5-80GB"}], "driver": "570.86.15", "images": list(IMAGES)}


KEPT = Path(__file__).parent / "kept"


@pytest.fixture
def kept(request: pytest.FixtureRequest) -> Callable[[str, object], None]:
    """Compare a value with kept/NAME.json, which is the real thing's answer (written by it with --update-golden)."""

    def check(name: str, value: object) -> None:
        file = KEPT / f"{name.replace(' ', '-')}.json"
        if request.config.getoption("--update-golden") and "lab" in request.node.callspec.params.values():
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")
        assert value == json.loads(file.read_text())

    return check


@pytest.fixture(params=["simulated", pytest.param("lab", marks=pytest.mark.lab)])
def node(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """A bare node with one H100: simulated, or gpu-h1 of the lab."""
    if request.param == "simulated":
        monkeypatch.setenv("GPUPLAN_STATE_DIR", str(tmp_path))
        host = Host("gpu-h1", Connection.SIMULATED, simulated=HARDWARE)
        yield from opened(Node(host, connect(host), *IMAGES, simulated=True))
    else:
        lab = request.getfixturevalue("lab")
        lab.wipe("gpu-h1")
        host = lab.hosts["gpu-h1"]
        yield from opened(Node(host, connect(host), TRITON, PAUSE, simulated=False))
        lab.wipe("gpu-h1")


def opened(node: Node) -> Iterator[Node]:
    """The node, its session closed afterwards."""
    try:
        yield node
    finally:
        node.session.close()
