"""AgentCaller: every probe answers for itself, and one that hangs keeps nobody."""

import os
import threading
import time
from collections.abc import Iterator

import pytest

from tests.agent.support import AgentCaller


@pytest.fixture
def never() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_probe_that_hangs_is_left_behind_at_its_deadline(agent: AgentCaller, never: threading.Event) -> None:
    agent.node.engine_answers["/version"] = lambda: never.wait(60)
    began = time.monotonic()
    found = agent.ok("ask", probes=["docker", "gpu"], plan="", deadlines={"docker": 0.2, "gpu": 5})
    assert time.monotonic() - began < 2
    assert found["probes"]["docker"]["error"]["code"] == "timeout"
    assert found["probes"]["docker"]["seconds"] >= 0.2
    assert found["probes"]["gpu"]["value"]["driver"] == "570.86.15"


def test_a_probe_that_fails_in_an_unforeseen_way_is_only_that_probe(agent: AgentCaller) -> None:
    agent.node.engine_answers["/version"] = RuntimeError("boom")
    found = agent.ok("ask", probes=["docker", "record"], plan="", deadlines={})
    assert found["probes"]["docker"]["error"] == {"code": "unexpected", "text": "RuntimeError: boom"}
    assert found["probes"]["record"]["value"] is None


def test_the_answer_says_when_and_in_which_format(agent: AgentCaller) -> None:
    found = agent.ok("ask", probes=[], plan="", deadlines={})
    assert found["format"] == 1
    assert found["probes"] == {}
    assert time.strptime(found["asked_at"], "%Y-%m-%dT%H:%M:%SZ")


def test_an_unknown_probe_is_refused(agent: AgentCaller) -> None:
    assert agent.refused("ask", probes=["host", "weather"], plan="", deadlines={}) == "invalid"


def test_the_host_probe_leaves_no_trace_on_a_bare_node(agent: AgentCaller) -> None:
    value = agent.value("host")
    assert value["hostname"] == "here"
    assert value["lock"] is None
    assert value["disk"]["path"] == agent.node.root
    assert 0 < value["disk"]["free"] <= value["disk"]["total"]
    agent.value("repository")
    agent.value("record")
    assert not os.path.exists(agent.node.root)
