"""The snapshot: every probe has the same keys and types on both sides."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

import pytest

from gpuplan.transport.session import PROBES
from tests.contract.models import RAISES, ensemble, python
from tests.contract.node import PLAN, Node, failed
from tests.contract.shape import shape

RECORD = {"format": 1, "plan": PLAN, "run": "r1", "who": "me", "when": "2026-01-01T00:00:00Z", "resources": {},
          "remembered": {}, "bystanders": []}  # fmt: skip


@pytest.fixture
def busy(node: Node) -> Node:
    """A node with a slice, a Triton with models of all kinds, a container that is stopped, a record and a lock."""
    uuid = node.gpu()["uuid"]
    node.session.agent("lock.take", owner={"run": "r1", "who": "me", "since": "2026-01-01T00:00:00Z", "pid": 1})
    node.session.agent("mig.set_mode", uuid=uuid, enabled=True)
    node.start_triton(node.slice(9, 0, 4))
    for model, files in {"a": python(), "bad": python(RAISES), "both": ensemble("a"), "never": python()}.items():
        node.write_model(model, files)
    with node.triton() as client:
        client.load_model("both")
        assert failed(lambda: client.load_model("bad"))[0] == "400"
    node.create(node.sleeper("idle"))
    node.session.agent("record.write", plan=PLAN, record=RECORD)
    return node


def test_every_probe_has_its_shape(busy: Node, kept: Callable[[str, object], None]) -> None:
    told = busy.ask(*PROBES)
    del told["host"]["modules"]  # the lab's kernel has none
    for gpu in told["gpu"]["gpus"]:
        del gpu["holders"]  # the lab's containers have no device files
    for image in told["docker"]["images"]:
        del image["RepoDigests"], image["Config"]["Cmd"]  # these are other images
    for probe in PROBES:
        kept(f"shape {probe}", shape(told[probe]))


def test_a_bare_node_has_its_shape(node: Node, kept: Callable[[str, object], None]) -> None:
    told = node.ask("host", "gpu", "triton", "repository", "record")
    del told["host"]["modules"]
    kept("shape of a bare node", {probe: shape(value) for probe, value in told.items()})


def test_what_the_node_is_busy_with(busy: Node) -> None:
    told = busy.ask(*PROBES)
    (server,) = told["triton"]["servers"]
    assert (server["name"], server["address"], server["live"]) == ("triton", "127.0.0.1:8000", True)
    assert sorted(server["configs"]) == ["a", "both"]
    assert server["configs"]["a"]["parameters"] == {"gpuplan_content": {"string_value": "CONTENT"}}
    states = {one["name"]: one.get("state") for one in server["index"]}
    assert states == {"a": "READY", "bad": "UNAVAILABLE", "both": "READY", "never": None}
    repository = told["repository"]["repositories"]["triton"]
    assert sorted(repository["models"]) == ["a", "bad", "both", "never"]
    assert sorted(repository["models"]["a"]["files"]) == ["1/model.py", "config.pbtxt"]
    assert told["record"] == RECORD
    assert told["host"]["lock"]["who"] == "me"
    (process,) = told["gpu"]["gpus"][0]["processes"]
    assert process["name"] == "tritonserver"
    assert {one["Name"] for one in told["docker"]["containers"]} == {"/triton", "/idle"}


def test_a_port_where_nobody_listens(node: Node) -> None:
    with node.session.forward(9) as where:
        host, _, port = where.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b""
