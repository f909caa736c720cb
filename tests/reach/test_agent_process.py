"""The conversation with an agent, against a pipe that is written by hand."""

import json
from collections import deque

import pytest

from gpuplan.model.diagnostic import Problem, Refused
from gpuplan.reach.agent_process import AgentProcess
from gpuplan.reach.bundle import agent_program
from gpuplan.reach.session import Question

HELLO = b'{"hello": "gpuplan-agent", "python": "3.11.2", "uid": 0}\n'


class Written:
    """A pipe whose answers are written beforehand; an exception is raised in the place of bytes."""

    def __init__(self, *answers: bytes | BaseException, complaint: str = "", status: int | None = None) -> None:
        self.answers = deque(answers)
        self.sent = b""
        self.said = complaint
        self.exit = status
        self.closed = False

    def send(self, data: bytes) -> None:
        self.sent += data

    def receive(self, timeout: float) -> bytes:
        answer = self.answers.popleft() if self.answers else b""
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def complaint(self) -> str:
        return self.said

    def status(self) -> int | None:
        return self.exit

    def close(self) -> None:
        self.closed = True


def test_answers_may_arrive_in_any_pieces() -> None:
    pipe = Written(HELLO[:5], HELLO[5:] + b'{"ok"', b': {"taken": true}}\n{"ok": {}}\n')
    agent = AgentProcess("n", pipe)
    assert agent.call("lock.take", {"owner": {}}) == {"taken": True}
    assert agent.call("lock.release", {}) == {}
    agent.close()
    assert pipe.closed


def test_a_question_names_a_deadline_for_each_probe() -> None:
    told = {"format": 1, "asked_at": "now", "seconds": 0.5, "probes": {"host": {"seconds": 0.1, "value": {"uid": 0}}}}
    pipe = Written(HELLO, json.dumps({"ok": told}).encode() + b"\n")
    snapshot = AgentProcess("n", pipe).ask(Question("prod", ["host"], {"host": 2.0}))
    assert json.loads(pipe.sent[len(agent_program()) :]) == {
        "op": "ask",
        "plan": "prod",
        "probes": ["host"],
        "deadlines": {"host": 2.0},
    }
    assert snapshot.probe("host").value == {"uid": 0}
    assert (snapshot.asked_at, snapshot.seconds, snapshot.node) == ("now", 0.5, "n")


def test_what_the_agent_refuses_has_its_code_and_words() -> None:
    pipe = Written(HELLO, b'{"error": {"code": "in_use", "text": "In use by another client"}}\n')
    with pytest.raises(Refused) as caught:
        AgentProcess("n", pipe).call("mig.destroy", {})
    assert (caught.value.code, caught.value.text) == ("in_use", "In use by another client")


def test_after_an_interrupt_answers_still_belong_to_their_requests() -> None:
    pipe = Written(HELLO, KeyboardInterrupt(), b'{"ok": {"first": 1}}\n', b'{"ok": {"second": 2}}\n')
    agent = AgentProcess("n", pipe)
    with pytest.raises(KeyboardInterrupt):
        agent.call("record.write", {})
    assert agent.call("lock.release", {}) == {"second": 2}


def test_a_request_that_was_torn_apart_ends_the_conversation() -> None:
    pipe = Written(HELLO)
    agent = AgentProcess("n", pipe)
    whole = pipe.send

    def torn(data: bytes) -> None:
        whole(data[:3])
        raise KeyboardInterrupt

    pipe.send = torn
    with pytest.raises(KeyboardInterrupt):
        agent.call("record.write", {})
    pipe.send = whole
    with pytest.raises(Problem, match="connection to the node was lost"):
        agent.call("lock.release", {})


def test_the_agents_last_words_are_told() -> None:
    pipe = Written(HELLO, b"", complaint="MemoryError\n")
    with pytest.raises(Problem, match="MemoryError"):
        AgentProcess("n", pipe).call("record.write", {})
    assert pipe.closed


def test_silence_ends_it() -> None:
    pipe = Written(HELLO, TimeoutError())
    with pytest.raises(Problem, match="does not answer"):
        AgentProcess("n", pipe).call("record.write", {})
    with pytest.raises(Problem, match="No word"):
        AgentProcess("n", Written(TimeoutError()))
