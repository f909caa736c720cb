"""Engines of other releases on simulated nodes: what they refuse, what they do not say any more, and mixed fleets."""

from __future__ import annotations

from typing import Any

import docker.errors
import pytest

from gpuplan.simulator.engine.http import KNOWN, EngineRequest, release_of
from gpuplan.transport.connect import connect
from gpuplan.transport.session import Question
from gpuplan.types.diagnostic import Problem
from gpuplan.types.inventory import Connection, Host


def host(engine: str) -> Host:
    hardware = {"gpus": ["A30"], "engine": engine, "images": ["busybox"]}
    return Host(f"n-{engine}", Connection.SIMULATED, simulated=hardware)


@pytest.mark.parametrize("engine", KNOWN)
def test_every_release_is_spoken_to(engine: str) -> None:
    session = connect(host(engine))
    try:
        client: Any = session.docker()
        created = client.create_container("busybox", ["true"], name="c1")
        probe: Any = session.ask(Question("p", ("docker",))).probe("docker").value
        assert (probe["version"]["Version"], probe["info"]["ServerVersion"]) == (f"{engine}.0", f"{engine}.0")
        assert [each["Id"] for each in probe["containers"]] == [created["Id"]]
        newest, spoken = release_of({"engine": engine}).asked(""), client.api_version
        assert spoken == min("1.44", ".".join(map(str, newest)))
        assert ("VirtualSize" in probe["images"][0]) is (newest < (1, 44))
    finally:
        session.close()


def test_docker_29_refuses_old_clients_and_too_new_ones() -> None:
    session: Any = connect(host("29.0"))
    try:
        answers = [
            session._engine(EngineRequest("GET", f"/v{version}/info")) for version in ("1.24", "1.43", "1.44", "1.53")
        ]
        assert [answer.status for answer in answers] == [400, 400, 200, 400]
        assert b"client version 1.43 is too old. Minimum supported API version is 1.44, please" in answers[1].body
        assert b"client version 1.53 is too new. Maximum supported API version is 1.52" in answers[3].body
        with pytest.raises(docker.errors.ImageNotFound):
            session.docker().inspect_image("nowhere")
    finally:
        session.close()


def test_unversioned_requests_are_answered_in_the_newest_version() -> None:
    session: Any = connect(host("29.0"))
    try:
        assert b"ContainerConfig" not in session._engine(EngineRequest("GET", "/images/busybox/json")).body
        assert b"ContainerConfig" in session._engine(EngineRequest("GET", "/v1.44/images/busybox/json")).body
    finally:
        session.close()


def test_an_engine_that_nobody_has_is_told() -> None:
    with pytest.raises(Problem, match=r"No simulated node has the engine '17\.03'"):
        connect(host("17.03"))
