"""GPU access: what a container may do with its device files, and the CDI specifications of the node."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuplan.simulator.session import SimulatedSession
from gpuplan.simulator.tools import daemon_reload
from gpuplan.types.diagnostic import Refused
from tests.contract.node import PLAN, Node
from tests.lab.fixtures import Lab

CDI = "/etc/cdi/nvidia.yaml"


@pytest.fixture
def reload(node: Node, request: pytest.FixtureRequest) -> Callable[[], None]:
    """`systemctl daemon-reload` on the node."""
    if isinstance(node.session, SimulatedSession):
        store = node.session.store
        return lambda: daemon_reload(store)
    lab = request.getfixturevalue("lab")
    assert isinstance(lab, Lab)
    return lambda: void(lab.run("gpu-h1", ["systemctl", "daemon-reload"]))


def void(_: object) -> None:
    """Of what is run, only the effect counts."""


def started(node: Node, name: str, plan: str, *devices: str) -> str:
    asked = [{"Driver": "", "Count": 0, "DeviceIDs": list(devices), "Capabilities": [["gpu"]], "Options": {}}]
    labels = {"gpuplan.plan": plan, "gpuplan.name": name}
    body = {**node.sleeper(name, DeviceRequests=asked if devices else None), "Labels": labels}
    identity = node.create(body)
    node.session.docker().start(identity)
    return identity


def test_access_is_lost_at_a_daemon_reload_and_comes_back_with_a_start(node: Node, reload: Callable[[], None]) -> None:
    web = started(node, "web", PLAN, node.gpu()["uuid"])
    (told,) = node.ask("access")["access"]["containers"].values()
    assert {"nvidia0", "nvidiactl"} <= set(told["nodes"])
    assert told["denied"] == []
    reload()
    (told,) = node.ask("access")["access"]["containers"].values()
    assert told["denied"] == told["nodes"]
    node.session.docker().restart(web, timeout=0)
    (told,) = node.ask("access")["access"]["containers"].values()
    assert told["denied"] == []


def test_only_running_containers_of_the_plan_that_have_gpus_are_asked(node: Node) -> None:
    uuid = node.gpu()["uuid"]
    started(node, "without", PLAN)
    started(node, "of-another", "another", uuid)
    stopped = started(node, "stopped", PLAN, uuid)
    node.session.docker().stop(stopped, timeout=0)
    web = started(node, "web", PLAN, uuid)
    assert list(node.ask("access")["access"]["containers"]) == [web]


def test_a_specification_lists_what_is_there_when_it_is_written(node: Node) -> None:
    uuid = node.gpu()["uuid"]
    assert node.ask("toolkit")["toolkit"]["cdi"] == []
    node.session.agent("cdi.generate", path=CDI)
    (first,) = node.ask("toolkit")["toolkit"]["cdi"]
    assert first == {"path": CDI, "devices": ["0", uuid, "all"]}
    node.session.agent("mig.set_mode", uuid=uuid, enabled=True)
    slices = [node.slice(9, start, 4) for start in (0, 4)]
    (stale,) = node.ask("toolkit")["toolkit"]["cdi"]
    assert stale == first
    node.session.agent("cdi.generate", path=CDI)
    (current,) = node.ask("toolkit")["toolkit"]["cdi"]
    assert sorted(current["devices"]) == sorted(["0:0", "0:1", *slices, "all"])


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/etc/cdi/../passwd", "/etc/cdi/-x.yaml", "/etc/cdi/a b.yaml", "cdi.yaml"]
)
def test_a_specification_is_written_nowhere_else(node: Node, path: str) -> None:
    with pytest.raises(Refused) as refused:
        node.session.agent("cdi.generate", path=path)
    assert refused.value.code == "invalid"
