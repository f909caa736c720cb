"""The agent at the other end of a pipe: starting it, asking it, and telling well why it could not start or answer."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Mapping

from gpuplan.transport.answers import Misunderstood, accepted, parsed, refusal, snapshot
from gpuplan.transport.bundle import agent_program
from gpuplan.transport.conversation import LARGEST, Conversation, Pipe, TooLarge
from gpuplan.transport.session import DEADLINES, Question
from gpuplan.transport.start import explain_start
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Exit, Problem, Refused
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import JsonObject

START = 30.0
"""Seconds from the command line to the agent's first word."""
SLACK = 30.0
"""Seconds that an answer may take on its way, beyond the deadlines of its probes."""
PATIENCE = 120.0
"""Seconds for an operation that writes a few small files and syncs them, on a disk that is busy."""
LONGER: Mapping[str, float] = {
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
        self._conversation = Conversation(node, pipe)
        self._turn = threading.Lock()
        self._start()
        self._conversation.keep_alive()

    def ask(self, question: Question) -> Snapshot:
        """One round trip; see Session.ask."""
        deadlines = {name: question.deadlines.get(name, DEADLINES.get(name, SLACK)) for name in question.probes}
        arguments = {"probes": list(question.probes), "plan": question.plan, "deadlines": deadlines}
        answer = self._operation("ask", arguments, timeout=max(deadlines.values(), default=0.0) + SLACK)
        try:
            return snapshot(self._node, answer)
        except Misunderstood as error:
            raise self._misunderstood("ask", error) from error

    def call(self, operation: str, arguments: Mapping[str, object], body: bytes | None = None) -> JsonObject:
        """One operation, with the bytes that follow it; see Session.agent."""
        return self._operation(operation, arguments, body)

    def close(self) -> None:
        """End it; may be called twice."""
        self._conversation.close()

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
        except Misunderstood as error:
            raise self._misunderstood(name, error) from error
        raise Refused(self._node, name, *refused)

    def _exchange(self, name: str, frame: bytes, timeout: float) -> bytes:
        """The line that answers a request. Whatever goes wrong ends the conversation: nothing is in step after it."""
        patience = timeout or LONGER.get(name, PATIENCE)
        try:
            self._conversation.request(frame)
            return self._conversation.answer(patience)
        except TimeoutError as error:
            detail = f"{name}: no answer within {patience:g} s."
            fix = "What the operation had done so far is unknown; look at the node, then run plan again."
            raise self._ended("The node does not answer", detail, fix) from error
        except TooLarge as error:
            detail = f"{name}: the answer is larger than {LARGEST >> 20} MiB."
            raise self._ended(
                "The node's answer is too large", detail, "Look at what the node holds so much of."
            ) from error
        except OSError as error:
            raise self._broken(name) from error

    def _start(self) -> None:
        """Send the program and wait for its first word."""
        try:
            with contextlib.suppress(OSError):  # a program that did not start tells why on standard error
                self._conversation.send(agent_program())
            hello = self._hello()
        except TimeoutError as error:
            self.close()
            raise self._problem("The agent does not start", f"No word from it within {START:g} s.") from error
        except (OSError, TooLarge, Misunderstood) as error:
            diagnostic = explain_start(self._node, self._pipe.status(), self._pipe.complaint())
            self.close()
            raise Problem(diagnostic, Exit.UNREAD) from error
        if "too_old" in hello:
            self.close()
            detail = f"The node's Python is {hello['too_old']}; the agent needs 3.8 or later."
            fix = "Install a newer Python there and name it with ansible_python_interpreter."
            raise self._problem("The node's Python is too old", detail, fix)

    def _hello(self) -> JsonObject:
        """The agent's first line; a login shell may have said something before it."""
        until = time.monotonic() + START
        for _ in range(CHATTER):
            line = self._conversation.line(until - time.monotonic())
            if line.startswith(b'{"hello"'):
                return parsed(line)
        raise Misunderstood("there was no first word of the agent's")

    def _broken(self, operation: str) -> Problem:
        said = self._pipe.complaint().strip()
        detail = f"The agent ended or the connection broke during {operation}" + (f": {said[-500:]}" if said else ".")
        fix = "What the operation had done so far is unknown; run plan again to see how the node stands now."
        return self._ended("The connection to the node was lost", detail, fix)

    def _misunderstood(self, operation: str, error: Misunderstood) -> Problem:
        detail = f"{operation}: {error}."
        fix = (
            "Look at what runs as the agent there (ansible_python_interpreter, the user's shell), then run plan again."
        )
        return self._ended("The agent's answer could not be understood", detail, fix)

    def _ended(self, summary: str, detail: str, fix: str) -> ConnectionLost:
        """The conversation is over, and this is why."""
        self.close()
        return ConnectionLost(Diagnostic(summary, detail, fix, address=self._node), Exit.UNREAD)

    def _problem(self, summary: str, detail: str, fix: str = "") -> Problem:
        return Problem(Diagnostic(summary, detail, fix, address=self._node), Exit.UNREAD)
