"""The agent at the other end of a pipe: starting it, asking it, and telling well why it could not start or answer."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping

from gpuplan.transport.bundle import agent_program
from gpuplan.transport.pipe import LARGEST, AgentLines, Pipe, TooLarge, explain_start
from gpuplan.transport.session import DEADLINES, Question
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Exit, Problem, Refused
from gpuplan.types.snapshot import Probe, ProbeError, Snapshot
from gpuplan.types.value import Json, JsonObject

# The format of the agent's answers, checked before they are used.

Check = Callable[[object], bool]


class InvalidAnswer(ValueError):
    """The agent said something that is none of the answers of docs/agent.md."""


def parsed(line: bytes) -> JsonObject:
    """One line as a JSON object; raises Misunderstood."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidAnswer(f"not JSON ({type(error).__name__})") from error
    return _object(found, "it")


def refusal(answer: JsonObject) -> tuple[str, str] | None:
    """Code and text of an answer that is an error; None where it is another. Raises Misunderstood."""
    return _error(answer["error"]) if "error" in answer else None


def accepted(operation: str, answer: JsonObject) -> JsonObject:
    """The `ok` of an answer, with every field that this operation's answers have; raises Misunderstood."""
    found = _object(answer.get("ok"), "ok")
    for name, check in FIELDS.get(operation, {}).items():
        if not check(found.get(name)):
            raise InvalidAnswer(f"{name} is missing or has the wrong type")
    return found


def snapshot(node: str, answer: JsonObject) -> Snapshot:
    """The snapshot that an accepted `ask` holds; raises Misunderstood."""
    probes = {name: _probe(name, probe) for name, probe in _object(answer["probes"], "probes").items()}
    return Snapshot(node, probes, str(answer["asked_at"]), _seconds(answer["seconds"], "seconds"))


def _probe(name: str, answer: object) -> Probe:
    found = _object(answer, f"the probe {name}")
    seconds = _seconds(found.get("seconds"), f"the probe {name}")
    if "error" in found:
        return Probe(error=ProbeError(*_error(found["error"])), seconds=seconds)
    if "value" not in found:
        raise InvalidAnswer(f"the probe {name} has neither a value nor an error")
    return Probe(value=found["value"], seconds=seconds)


def _error(found: object) -> tuple[str, str]:
    error = _object(found, "error")
    code, text = error.get("code"), error.get("text")
    if not isinstance(code, str) or not isinstance(text, str):
        raise InvalidAnswer("an error has no code or no text")
    return code, text


def _object(found: object, what: str) -> Mapping[str, Json]:
    if not isinstance(found, dict):
        raise InvalidAnswer(f"{what} is not an object")
    return found


def _seconds(found: object, what: str) -> float:
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise InvalidAnswer(f"{what} has no number of seconds")
    return float(found)


def _is_text(found: object) -> bool:
    return isinstance(found, str)


def _is_flag(found: object) -> bool:
    return isinstance(found, bool)


def _is_number(found: object) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool)


def _is_texts(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(each, str) for each in found)


def _is_object(found: object) -> bool:
    return isinstance(found, dict)


def _is_object_or_null(found: object) -> bool:
    return found is None or isinstance(found, dict)


FIELDS: Mapping[str, Mapping[str, Check]] = {
    "ask": {"probes": _is_object, "asked_at": _is_text, "seconds": _is_number},
    "lock.take": {"taken": _is_flag, "holder": _is_object_or_null},
    "mig.set_mode": {"status": _is_number, "current": _is_flag, "pending": _is_flag},
    "mig.create": {"instance": _is_number, "mig_uuid": _is_text},
    "mig.create_compute": {"mig_uuid": _is_text},
    "blob.missing": {"missing": _is_texts, "arrived": _is_object},
    "blob.begin": {"have": _is_number, "whole": _is_flag},
    "blob.collect": {"removed": _is_number, "bytes": _is_number},
    "repository.prepare": {"path": _is_text},
    "repository.restore": {"content": _is_text},
    "repository.load_at_start": {"load_models": _is_texts},
}
"""The fields of each operation's answer (docs/agent.md); the others answer with an empty object."""

START = 30.0
"""Seconds from the command line to the agent's first word."""
SLACK = 30.0
"""Seconds that an answer may take on its way, beyond the deadlines of its probes."""
PATIENCE = 120.0
"""Seconds for an operation that writes a few small files and syncs them, on a disk that is busy."""
OPERATION_TIMEOUTS: Mapping[str, float] = {
    "blob.missing": 3600.0,
    "repository.switch": 3600.0,
    "blob.begin": 3600.0,
    "blob.put": 900.0,
    "blob.pack": 900.0,
    "blob.collect": 900.0,
    "repository.remove": 900.0,
    "mig.set_mode": 300.0,
    "mig.create": 300.0,
    "mig.destroy": 300.0,
}
"""Seconds for those that may need more. The first three hash what is on the node: a terabyte at 300 MB/s. The last
piece of a blob waits until the disk has all of it, and removing many large files takes as long. The driver resets a GPU
when its MIG mode changes. A connection that is lost ends each of them sooner."""
CHATTER = 200
"""Lines that a login shell may write before the agent speaks."""


class AgentProcess:
    """A running agent. Several threads may ask it; it answers one after the other."""

    def __init__(self, node: str, pipe: Pipe) -> None:
        self._node = node
        self._pipe = pipe
        self._lines = AgentLines(node, pipe)
        self._turn = threading.Lock()
        self._start()
        self._lines.keep_alive()

    def ask(self, question: Question) -> Snapshot:
        """One round trip; see Session.ask."""
        deadlines = {name: question.deadlines.get(name, DEADLINES.get(name, SLACK)) for name in question.probes}
        arguments = {"probes": list(question.probes), "plan": question.plan, "deadlines": deadlines}
        answer = self._operation("ask", arguments, timeout=max(deadlines.values(), default=0.0) + SLACK)
        try:
            return snapshot(self._node, answer)
        except InvalidAnswer as error:
            raise self._misunderstood("ask", error) from error

    def call(self, operation: str, arguments: Mapping[str, object], body: bytes | None = None) -> JsonObject:
        """One operation, with the bytes that follow it; see Session.agent."""
        return self._operation(operation, arguments, body)

    def close(self) -> None:
        """End it; may be called twice."""
        self._lines.close()

    def _operation(
        self, name: str, arguments: Mapping[str, object], body: bytes | None = None, timeout: float = 0.0
    ) -> JsonObject:
        request = {"op": name, **arguments} if body is None else {"op": name, **arguments, "body": len(body)}
        try:
            with self._turn:
                answer = parsed(self._exchange(name, json.dumps(request).encode() + b"\n" + (body or b""), timeout))
            refused = refusal(answer)
            if refused is None:
                return accepted(name, answer)
        except InvalidAnswer as error:
            raise self._misunderstood(name, error) from error
        raise Refused(self._node, name, *refused)

    def _exchange(self, name: str, frame: bytes, timeout: float) -> bytes:
        """The line that answers a request. Whatever goes wrong ends the conversation: nothing is in step after it."""
        patience = timeout or OPERATION_TIMEOUTS.get(name, PATIENCE)
        try:
            self._lines.request(frame)
            return self._lines.answer(patience)
        except TimeoutError as error:
            detail = f"{name}: no answer within {patience:g} s."
            fix = "The operation may have partly happened. Check the node, then run gpuplan plan."
            raise self._ended("The node does not answer", detail, fix) from error
        except TooLarge as error:
            detail = f"{name}: the answer exceeds {LARGEST >> 20} MiB."
            raise self._ended(
                "The answer of the node is too large",
                detail,
                "Check what grew so large on the node, such as the number of model files or containers.",
            ) from error
        except OSError as error:
            raise self._broken(name) from error

    def _start(self) -> None:
        """Send the program and wait for its first word."""
        try:
            with contextlib.suppress(OSError):  # a program that did not start tells why on standard error
                self._lines.send(agent_program())
            hello = self._hello()
        except TimeoutError as error:
            self.close()
            raise self._problem(
                "The agent did not start",
                f"No output from it within {START:g} s.",
                "Check the load of the node and what its login shell runs.",
            ) from error
        except (OSError, TooLarge, InvalidAnswer) as error:
            diagnostic = explain_start(self._node, self._pipe.status(), self._pipe.complaint())
            self.close()
            raise Problem(diagnostic, Exit.UNREAD) from error
        if "too_old" in hello:
            self.close()
            detail = f"The node has Python {hello['too_old']}; the agent needs 3.8 or later."
            fix = "Install Python 3.8 or later on the node, and set ansible_python_interpreter to its path."
            raise self._problem("The node's Python is too old", detail, fix)

    def _hello(self) -> JsonObject:
        """The agent's first line; a login shell may have said something before it."""
        until = time.monotonic() + START
        for _ in range(CHATTER):
            line = self._lines.line(until - time.monotonic())
            if line.startswith(b'{"hello"'):
                return parsed(line)
        raise InvalidAnswer("the first line of the agent is missing")

    def _broken(self, operation: str) -> Problem:
        said = self._pipe.complaint().strip()
        detail = f"The agent exited or the connection broke during {operation}" + (f": {said[-500:]}" if said else ".")
        fix = "The operation may have partly happened. Run gpuplan plan to see the state of the node."
        return self._ended("The connection to the node was lost", detail, fix)

    def _misunderstood(self, operation: str, error: InvalidAnswer) -> Problem:
        detail = f"{operation}: {error}."
        fix = "Check ansible_python_interpreter and the login shell of the user on the node, then run gpuplan plan."
        return self._ended("Invalid answer from the agent", detail, fix)

    def _ended(self, summary: str, detail: str, fix: str) -> ConnectionLost:
        """The conversation is over, and this is why."""
        self.close()
        return ConnectionLost(Diagnostic(summary, detail, fix, address=self._node), Exit.UNREAD)

    def _problem(self, summary: str, detail: str, fix: str = "") -> Problem:
        return Problem(Diagnostic(summary, detail, fix, address=self._node), Exit.UNREAD)
