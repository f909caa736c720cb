"""A reboot: what goes, what stays, what comes back."""

from __future__ import annotations

import pytest

from gpuplan.simulator.session import SimulatedSession
from gpuplan.simulator.state import SimulatedProcess
from gpuplan.simulator.world import reboot
from gpuplan.transport.session import Question
from tests.simulator.conftest import Open, host


@pytest.mark.parametrize(("board", "stays"), [("A100-SXM4-80GB", True), ("A30", True), ("H100-SXM5-80GB", False)])
def test_mode_stays_where_the_board_keeps_it(connected: Open, board: str, stays: bool) -> None:
    session = connected(host(board))
    cut(session)
    before = session.store.read().boot_id
    reboot(session.store, session.node)
    (gpu,) = session.store.read().gpus
    assert (gpu.mig, gpu.pending, gpu.instances) == (stays, stays, [])
    assert session.store.read().boot_id != before


def test_a_pending_mode_comes_with_the_reboot(connected: Open) -> None:
    session = connected()
    with session.store.write() as state:
        state.processes.append(SimulatedProcess(99, "python", 0, 1024))
    told = session.agent("mig.set_mode", uuid=session.store.read().gpus[0].uuid, enabled=True)
    assert (told["current"], told["pending"]) == (False, True)
    reboot(session.store, session.node)
    (gpu,) = session.store.read().gpus
    assert (gpu.mig, session.store.read().processes) == (True, [])


def test_restart_policies(connected: Open) -> None:
    session = connected(host(images=["busybox:1.36"]))
    client = session.docker()
    for policy in ("no", "on-failure", "unless-stopped", "always"):
        for how in ("running", "stopped", "created"):
            restart = client.create_host_config(restart_policy={"Name": policy})
            name = f"{policy}-{how}"
            client.create_container("busybox:1.36", ["sleep", "1000000"], name=name, host_config=restart)
            if how != "created":
                client.start(name)
            if how == "stopped":
                client.stop(name)
    reboot(session.store, session.node)
    running = {name[1:] for one in client.containers() for name in one["Names"]}
    assert running == {"unless-stopped-running", "always-running", "always-stopped"}


def test_a_container_whose_slice_is_gone_does_not_come_back(connected: Open) -> None:
    session = connected(host("H100-SXM5-80GB", images=["busybox:1.36"]))
    uuid = cut(session)
    client = session.docker()
    request = {"Driver": "", "Count": 0, "DeviceIDs": [uuid], "Capabilities": [["gpu"]], "Options": {}}
    made = {"Image": "busybox:1.36", "Cmd": ["sleep", "1000000"], "Env": [], "Labels": {}}
    policy = {"Name": "always"}
    client.create_container_from_config(
        {**made, "HostConfig": {"DeviceRequests": [request], "RestartPolicy": policy}}, "one"
    )
    client.start("one")
    reboot(session.store, session.node)
    state = client.inspect_container("one")["State"]
    assert (state["Status"], state["ExitCode"]) == ("exited", 128)
    assert f"device error: {uuid}: unknown device" in state["Error"]


def cut(session: SimulatedSession) -> str:
    """Make the whole GPU one slice; its UUID."""
    gpu = session.ask(Question("p", ["gpu"])).probes["gpu"].value["gpus"][0]
    session.agent("mig.set_mode", uuid=gpu["uuid"], enabled=True)
    size = 4 if "A30" in gpu["name"] else 8
    return str(session.agent("mig.create", uuid=gpu["uuid"], profile_id=0, start=0, size=size)["mig_uuid"])
