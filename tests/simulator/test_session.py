"""Sessions: asking, faults, and the end of a session."""

from __future__ import annotations

import http.client
import socket
import time
from typing import Any

import pytest
from docker.errors import NotFound

from gpuplan.simulator.faults import Faults
from gpuplan.simulator.session import SimulatedSession
from gpuplan.transport.session import PROBES, Question
from gpuplan.types.diagnostic import Exit, Problem, Refused
from tests.simulator.conftest import Open, host

PLAN = "p"


def gpu(session: SimulatedSession) -> Any:
    return session.ask(Question(PLAN, ["gpu"])).probes["gpu"].value["gpus"][0]


def mode(session: SimulatedSession) -> bool:
    return bool(session.agent("mig.set_mode", uuid=gpu(session)["uuid"], enabled=True)["current"])


def test_a_node_is_asked_in_no_time(connected: Open) -> None:
    session = connected()
    session.ask(Question(PLAN))
    times = []
    for _ in range(10):
        began = time.perf_counter()
        snapshot = session.ask(Question(PLAN))
        times.append(time.perf_counter() - began)
        assert [name for name, probe in snapshot.probes.items() if probe.error] == []
    assert min(times) < 0.05


def test_state_outlives_the_session(connected: Open) -> None:
    first = connected()
    assert mode(first)
    first.close()
    assert gpu(connected())["mig"]["current"] is True


def test_a_closed_session_is_lost(connected: Open) -> None:
    session = connected()
    session.close()
    session.close()
    with pytest.raises(Problem, match="connection to the node was lost") as problem:
        session.ask(Question(PLAN))
    assert problem.value.exit_code is Exit.UNREAD


def test_closing_gives_the_lock_back(connected: Open) -> None:
    owner = {"run": "r", "who": "w", "since": "s", "pid": 1}
    first, second = connected(), connected()
    assert first.agent("lock.take", owner=owner) == {"taken": True}
    assert second.agent("lock.take", owner=owner)["taken"] is False
    first.close()
    assert second.agent("lock.take", owner=owner) == {"taken": True}


def test_refuse(connected: Open) -> None:
    with pytest.raises(Problem, match="no route to host") as problem:
        connected(host(faults=[{"refuse": "no route to host"}]))
    assert problem.value.exit_code is Exit.UNREAD


@pytest.mark.parametrize(
    ("hangs", "silent"),
    [("host", ["host"]), ("gpu", ["gpu"]), ("docker", ["docker", "access", "triton"]), ("triton", ["triton"])],
)
def test_hang(connected: Open, hangs: str, silent: list[str]) -> None:
    connected().docker().pull("nvcr.io/nvidia/tritonserver", tag="24.10-py3")
    command = ["tritonserver", "--model-repository=/models"]
    root = connected().agent("repository.prepare", plan=PLAN, container="t")["path"]
    client = connected().docker()
    binds = client.create_host_config(binds=[f"{root}/models:/models"])
    client.start(client.create_container("nvcr.io/nvidia/tritonserver:24.10-py3", command, host_config=binds))
    session = connected(host(faults=[{"hang": hangs}]))
    snapshot = session.ask(Question(PLAN, PROBES, dict.fromkeys(PROBES, 5.0) | dict.fromkeys(silent, 0.1)))
    errors = {name: answer.error.code for name, answer in snapshot.probes.items() if answer.error}
    assert errors == dict.fromkeys(silent, "timeout")


@pytest.mark.parametrize(("how", "code"), [("absent", "no_docker"), ("refused", "docker_refused")])
def test_no_engine(connected: Open, how: str, code: str) -> None:
    session = connected(host(faults=[{"docker": how}]))
    answer = session.ask(Question(PLAN, ["docker", "gpu"])).probes
    assert answer["gpu"].error is None
    assert answer["docker"].error is not None
    assert answer["docker"].error.code == code
    with pytest.raises(Problem, match="Docker engine"):
        session.docker()


def test_the_connection_drops_after_a_change(connected: Open) -> None:
    session = connected(host(faults=[{"drop_after": 2}]))
    assert mode(session)
    with pytest.raises(Problem, match="lost"):
        session.agent("mig.create", uuid=gpu(session)["uuid"], profile_id=9, start=0, size=4)
    with pytest.raises(Problem, match="lost"):
        session.ask(Question(PLAN))
    healthy = connected(host())
    assert [one["profile"] for one in gpu(healthy)["instances"]] == ["3g.40gb"]


def test_the_connection_drops_during_docker(connected: Open) -> None:
    session = connected(host(images=["busybox:1.36"], faults=[{"drop_after": 1}]))
    client = session.docker()
    assert client.containers(all=True) == []
    with pytest.raises(Problem, match="lost"):
        client.create_container("busybox:1.36", name="one")
    assert len(connected(host(images=["busybox:1.36"])).docker().containers(all=True)) == 1


@pytest.mark.parametrize("fault", ["mig.set_mode", "mig.create", "mig.destroy"])
def test_mig_without_effect(connected: Open, fault: str) -> None:
    session = connected(host(faults=[{"without_effect": fault}]))
    healthy = connected(host())
    if fault != "mig.set_mode":
        mode(healthy)
    if fault == "mig.destroy":
        healthy.agent("mig.create", uuid=gpu(healthy)["uuid"], profile_id=0, start=0, size=8)
    before = gpu(healthy)
    arguments: dict[str, dict[str, object]] = {
        "mig.set_mode": {"enabled": True},
        "mig.create": {"profile_id": 0, "start": 0, "size": 8},
        "mig.destroy": {"instance": 0, "profile_id": 0, "start": 0},
    }
    session.agent(fault, uuid=before["uuid"], **arguments[fault])
    assert gpu(session) == before


def test_docker_without_effect(connected: Open) -> None:
    session = connected(faults=Faults(without_effect={"docker.create"}), to=host(images=["busybox:1.36"]))
    client = session.docker()
    made = client.create_container("busybox:1.36", name="one")
    with pytest.raises(NotFound):
        client.inspect_container(made["Id"])
    session.faults.without_effect = {"docker.remove"}
    client.create_container("busybox:1.36", name="one")
    client.remove_container("one")
    assert client.inspect_container("one")["Name"] == "/one"


def test_nvml_errors(connected: Open) -> None:
    session = connected(host(faults=[{"nvml": "nvmlDeviceSetMigMode", "code": 4}]))
    with pytest.raises(Refused) as refused:
        mode(session)
    assert refused.value.code == "no_permission"
    lost = connected(host(faults=[{"nvml": "nvmlInit", "code": 9}]))
    error = lost.ask(Question(PLAN, ["gpu"])).probes["gpu"].error
    assert error is not None
    assert (error.code, error.text) == ("no_driver", "Driver Not Loaded")


@pytest.mark.parametrize("fault", [{}, {"hang": "record"}, {"drop_after": "3"}, {"nvml": "nvmlInit"}, {"bogus": 1}, 7])
def test_an_unknown_fault_is_told(connected: Open, fault: object) -> None:
    with pytest.raises(Problem, match="Unknown fault of a simulated node"):
        connected(host(faults=[fault]))


def test_a_forwarded_port_closes_with_its_context(connected: Open) -> None:
    with connected().forward(8000) as where:
        address = where.rpartition(":")
    with pytest.raises(OSError, match=r"refused"), socket.create_connection((address[0], int(address[2])), timeout=1):
        pass


def test_a_plain_container_answers_on_its_port(connected: Open) -> None:
    session = connected()
    client = session.docker()
    client.pull("nginx", tag="latest")
    ports = client.create_host_config(port_bindings={80: 8080})
    client.start(client.create_container("nginx", name="web", ports=[80], host_config=ports))
    with session.forward(8080) as where:
        connection = http.client.HTTPConnection(where, timeout=5)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        connection.close()
