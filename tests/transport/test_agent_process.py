"""The conversation with an agent, against a pipe that is written by hand."""

import json
from collections import deque

import pytest

from gpuplan.transport import pipe
from gpuplan.transport.agent_process import AgentProcess
from gpuplan.transport.bundle import agent_program
from gpuplan.transport.session import Question
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Exit, Problem, Refused

HELLO = b'{"hello": "gpuplan-agent", "python": "3.11.2", "uid": 0}\n'


class Written:
    """A pipe whose answers are written beforehand; an exception is raised in the place of bytes."""

    def __init__(self, *answers: bytes | BaseException, complaint: str = "", status: int | None = None) -> None:
        self.answers = deque(answers)
        self.sent = b""
        self.said = complaint
        self.exit = status
        self.closed = False
        self.waited: list[float] = []

    def send(self, data: bytes) -> None:
        self.sent += data

    def receive(self, timeout: float) -> bytes:
        self.waited.append(timeout)
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


def told(*answers: bytes, operation: str = "", **arguments: object) -> Diagnostic:
    """What is said of these answers; the conversation has ended with them."""
    pipe = Written(HELLO, *answers)
    agent = AgentProcess("n", pipe)
    with pytest.raises(ConnectionLost) as caught:
        agent.call(operation, arguments) if operation else agent.ask(Question("prod", ["host"]))
    assert pipe.closed
    assert caught.value.exit_code is Exit.UNREAD
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.address == "n"
    assert diagnostic.fix
    return diagnostic


SNAPSHOT = {"format": 1, "asked_at": "now", "seconds": 1, "probes": {}}


@pytest.mark.parametrize(
    "answer",
    [
        "nonsense",
        "[" * 100_000,
        "[]",
        "{}",
        '{"ok": null}',
        '{"error": null}',
        '{"error": {"code": "busy"}}',
        '{"error": {"code": 5, "text": "x"}}',
        *(
            json.dumps({"ok": {**SNAPSHOT, **change}})
            for change in (
                {"probes": None},
                {"probes": {"host": []}},
                {"probes": {"host": {"seconds": 1}}},
                {"probes": {"host": {"seconds": "1", "value": 1}}},
                {"probes": {"host": {"value": 1}}},
                {"probes": {"host": {"seconds": 1, "error": {}}}},
                {"seconds": True},
                {"asked_at": None},
            )
        ),
        json.dumps({"ok": {}}),
    ],
)
def test_a_malformed_answer_is_told_as_such(answer: str) -> None:
    assert told(answer.encode() + b"\n").summary == "Invalid answer from the agent"


@pytest.mark.parametrize(
    ("operation", "answer"),
    [
        ("lock.take", {}),
        ("lock.take", {"taken": 1}),
        ("lock.take", {"taken": False, "holder": "me"}),
        ("mig.set_mode", {"status": 0, "current": True}),
        ("mig.create", {"instance": "1", "mig_uuid": "MIG-1"}),
        ("mig.create_compute", {"mig_uuid": None}),
        ("blob.missing", {"missing": [1]}),
        ("blob.missing", {"missing": "abc"}),
        ("blob.collect", {"removed": 1}),
        ("repository.prepare", {}),
        ("repository.load_at_start", {"load_models": {}}),
        ("record.write", []),
    ],
)
def test_an_answer_has_the_fields_of_its_operation(operation: str, answer: object) -> None:
    diagnostic = told(json.dumps({"ok": answer}).encode() + b"\n", operation=operation)
    assert diagnostic.summary == "Invalid answer from the agent"
    assert diagnostic.detail.startswith(f"{operation}: ")


def test_an_answer_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe, "LARGEST", 1000)
    assert told(b"x" * 600, b"x" * 600, b"\n").summary == "The answer of the node is too large"


def test_one_deadline_holds_for_a_whole_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 50))
    pipe = Written(HELLO, *[b"x"] * 100)
    agent = AgentProcess("n", pipe)
    pipe.waited.clear()
    monkeypatch.setattr("gpuplan.transport.pipe.time.monotonic", lambda: next(clock))
    with pytest.raises(ConnectionLost, match="no answer within 120 s"):
        agent.call("record.write", {})
    assert pipe.waited == [70, 20]


def test_the_first_word_has_one_deadline_too(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 5))
    monkeypatch.setattr("gpuplan.transport.pipe.time.monotonic", lambda: next(clock))
    with pytest.raises(Problem, match="No output"):
        AgentProcess("n", Written(*[b"Welcome!\n"] * 100))


def test_a_node_that_takes_nothing_is_lost() -> None:
    pipe = Written(HELLO)
    agent = AgentProcess("n", pipe)

    def stalled(data: bytes) -> None:
        raise TimeoutError

    pipe.send = stalled
    with pytest.raises(ConnectionLost, match="connection to the node was lost"):
        agent.call("record.write", {})
    assert pipe.closed


def test_silence_ends_it() -> None:
    pipe = Written(HELLO, TimeoutError())
    with pytest.raises(Problem, match="does not answer"):
        AgentProcess("n", pipe).call("record.write", {})
    with pytest.raises(Problem, match="No output"):
        AgentProcess("n", Written(TimeoutError()))
