"""Control groups of real containers: read (version 1), and entered (as it takes with version 2)."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuplan.agent.proc import ControlGroup, check_access, control_group_of, device_access, device_nodes
from gpuplan.transport.connect import connect
from gpuplan.transport.session import Question
from tests.lab.fixtures import Lab
from tests.lab.place import PAUSE

pytestmark = pytest.mark.lab
NODE, PLAN = "gpu-t1", "grants"


@pytest.fixture
def first_process(lab: Lab) -> Iterator[int]:
    """The first process of a container with a GPU, by its number on this machine."""
    lab.wipe(NODE)
    session = connect(lab.hosts[NODE])
    engine = session.docker()
    request = {"Driver": "", "Count": 0, "DeviceIDs": ["0"], "Capabilities": [["gpu"]]}
    labels = {"gpuplan.plan": PLAN, "gpuplan.name": "web"}
    body = {"Image": PAUSE, "Cmd": ["sleep", "999"], "Labels": labels, "HostConfig": {"DeviceRequests": [request]}}
    container = engine.create_container_from_config(body, "web")["Id"]
    engine.start(container)
    yield outer(container)
    session.close()
    lab.wipe(NODE)


def outer(container: str) -> int:
    """This machine's number of the process that a control group of that name holds."""
    for directory, _, _ in os.walk("/sys/fs/cgroup/devices"):
        if directory.endswith(container):
            return int(Path(directory, "cgroup.procs").read_text().split()[0])
    pytest.skip("this machine has no devices hierarchy of control groups, and so the lab's containers no device files")


def test_both_ways_to_ask_say_the_same(lab: Lab, first_process: int) -> None:
    nodes, group = device_nodes(first_process), control_group_of(first_process)
    assert isinstance(group, ControlGroup)
    assert [node.name for node in nodes] == ["nvidia0", "nvidiactl"]
    home = f"{control_group_of('self').path}/cgroup.procs"
    for denied, allowed in (([], True), (["nvidia0", "nvidiactl"], False)):
        if denied:
            lab.run(NODE, ["systemctl", "daemon-reload"])
        assert device_access({"web": first_process}) == {
            "web": {"nodes": ["nvidia0", "nvidiactl"], "denied": denied},
        }
        assert check_access([(f"{group.path}/cgroup.procs", nodes)], home) == [{node.path: allowed for node in nodes}]


def test_one_that_ended_meanwhile_is_an_error_of_its_own(first_process: int) -> None:
    told = device_access({"gone": 2**22 - 1, "web": first_process})
    gone, web = told["gone"], told["web"]
    assert isinstance(gone, dict)
    assert gone["error"]["code"] == "not_found"
    assert isinstance(web, dict)
    assert web["denied"] == []


def test_who_is_not_root_is_told_so(lab: Lab, first_process: int) -> None:
    assert first_process
    session = connect(replace(lab.hosts[NODE], become=False))
    snapshot = session.ask(Question(PLAN, ("access",)))
    session.close()
    error = snapshot.probe("access").error
    assert error is not None
    assert error.code == "no_permission"
