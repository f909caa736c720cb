"""The agent at the other end of a pipe: starting it, asking it, and telling well why it could not start or answer."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping
from typing import Any, BinaryIO, Protocol

from gpuplan.model.diagnostic import ConnectionLost, Diagnostic, Exit, Problem, Refused
from gpuplan.model.snapshot import Probe, ProbeError, Snapshot
from gpuplan.model.value import JsonObject
from gpuplan.reach.bundle import agent_program
from gpuplan.reach.session import DEADLINES, Question
from gpuplan.reach.start import explain_start

START = 30.0
"""Seconds from the command line to the agent's first word."""
SLACK = 15.0
"""Seconds that an answer may take on its way, beyond the deadlines of its probes."""
PATIENCE = 3600.0
"""Seconds for any other operation: hashing a large model takes minutes, and a lost connection ends it sooner."""
PIECE = 1 << 22
"""Bytes of content in one request: each waits for its answer, which over a slow link takes a while."""
CHATTER = 200
"""Lines that a login shell may write before the agent speaks."""
SIGN_OF_LIFE = 30.0
"""Seconds between the empty lines that keep the node's lock ours."""


class Pipe(Protocol):
    """Standard input, output and error of a program on the node."""

    def send(self, data: bytes) -> None:
        """Write all of it; raises OSError where the program or the connection is gone."""
        ...

    def receive(self, timeout: float) -> bytes:
        """Some bytes, empty at the end; raises TimeoutError."""
        ...

    def complaint(self) -> str:
        """What it wrote to standard error; complete once `receive` has come to the end."""
        ...

    def status(self) -> int | None:
        """Its exit status, where it has ended and the status is known."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class AgentProcess:
    """A running agent."""

    def __init__(self, node: str, pipe: Pipe) -> None:
        self._node = node
        self._pipe = pipe
        self._held = bytearray()
        self._owed = 0
        self._torn = False
        self._sending = threading.Lock()
        self._closed = threading.Event()
        self._start()
        threading.Thread(target=self._keep_alive, name=f"alive-{node}", daemon=True).start()

    def ask(self, question: Question) -> Snapshot:
        """One round trip; see Session.ask."""
        deadlines = {name: question.deadlines.get(name, DEADLINES.get(name, SLACK)) for name in question.probes}
        answer = self._operation(
            "ask",
            {"probes": list(question.probes), "plan": question.plan, "deadlines": deadlines},
            timeout=max(deadlines.values(), default=0.0) + SLACK,
        )
        probes = {name: _probe(probe) for name, probe in answer["probes"].items()}
        return Snapshot(self._node, probes, answer["asked_at"], answer["seconds"])

    def call(self, operation: str, arguments: Mapping[str, object]) -> JsonObject:
        """One operation; see Session.agent."""
        return self._operation(operation, arguments)

    def put(self, digest: str, size: int, content: BinaryIO) -> None:
        """Content in pieces, each one answered; see Session.send."""
        offset = 0
        while True:
            piece = content.read(PIECE)
            last = offset + len(piece) >= size or not piece
            arguments = {"digest": digest, "size": size, "offset": offset, "last": last}
            self._operation("blob.put", arguments, body=piece)
            offset += len(piece)
            if last:
                return

    def close(self) -> None:
        """End it; may be called twice."""
        self._closed.set()
        self._pipe.close()

    def _operation(
        self, name: str, arguments: Mapping[str, object], body: bytes | None = None, timeout: float = PATIENCE
    ) -> dict[str, Any]:
        request = {"op": name, **arguments} if body is None else {"op": name, **arguments, "body": len(body)}
        try:
            self._request(json.dumps(request).encode() + b"\n" + (body or b""))
            answer = json.loads(self._answer(timeout))
        except TimeoutError as error:
            self.close()
            detail = f"{name}: no answer within {timeout:g} s."
            raise ConnectionLost(
                Diagnostic("The node does not answer", detail, address=self._node), Exit.UNREAD
            ) from error
        except (OSError, ValueError) as error:
            self.close()
            raise self._lost(name) from error
        if "error" in answer:
            raise Refused(self._node, name, answer["error"]["code"], answer["error"]["text"])
        found: dict[str, Any] = answer["ok"]
        return found

    def _start(self) -> None:
        """Send the program and wait for its first word."""
        try:
            with contextlib.suppress(OSError):  # a program that did not start tells why on standard error
                self._send(agent_program())
            hello = self._hello()
        except TimeoutError as error:
            self._pipe.close()
            raise self._problem("The agent does not start", f"No word from it within {START:g} s.") from error
        except (OSError, ValueError) as error:
            diagnostic = explain_start(self._node, self._pipe.status(), self._pipe.complaint())
            self._pipe.close()
            raise Problem(diagnostic, Exit.UNREAD) from error
        if "too_old" in hello:
            self._pipe.close()
            detail = f"The node's Python is {hello['too_old']}; the agent needs 3.8 or later."
            fix = "Install a newer Python there and name it with ansible_python_interpreter."
            raise self._problem("The node's Python is too old", detail, fix)

    def _hello(self) -> dict[str, Any]:
        """The agent's first line; a login shell may have said something before it."""
        for _ in range(CHATTER):
            line = self._line(START)
            if line.startswith(b'{"hello"'):
                found: dict[str, Any] = json.loads(line)
                return found
        raise ValueError("there was no first word of the agent's")

    def _request(self, frame: bytes) -> None:
        """Send a request. One that an interrupt tore apart leaves nothing that the agent could understand."""
        if self._torn:
            raise ConnectionError
        self._torn = True
        self._send(frame)
        self._torn = False
        self._owed += 1

    def _answer(self, timeout: float) -> bytes:
        """The answer to the last request; those that an interrupt kept us from reading come first."""
        line = b""
        while self._owed:
            line = self._line(timeout)
            self._owed -= 1
        return line

    def _send(self, data: bytes) -> None:
        with self._sending:
            self._pipe.send(data)

    def _line(self, timeout: float) -> bytes:
        while b"\n" not in self._held:
            piece = self._pipe.receive(timeout)
            if not piece:
                raise ConnectionError("the agent has ended")
            self._held += piece
        line, _, rest = bytes(self._held).partition(b"\n")
        self._held = bytearray(rest)
        return line

    def _keep_alive(self) -> None:
        while not self._closed.wait(SIGN_OF_LIFE):
            with contextlib.suppress(OSError):
                self._send(b"\n")

    def _lost(self, operation: str) -> Problem:
        said = self._pipe.complaint().strip()
        detail = f"The agent ended or the connection broke during {operation}" + (f": {said[-500:]}" if said else ".")
        fix = "What the operation had done so far is unknown; run plan again to see how the node stands now."
        return ConnectionLost(
            Diagnostic("The connection to the node was lost", detail, fix, address=self._node), Exit.UNREAD
        )

    def _problem(self, summary: str, detail: str, fix: str = "") -> Problem:
        return Problem(Diagnostic(summary, detail, fix, address=self._node), Exit.UNREAD)


def _probe(answer: Mapping[str, Any]) -> Probe:
    error = answer.get("error")
    if error is not None:
        return Probe(error=ProbeError(error["code"], error["text"]), seconds=answer["seconds"])
    return Probe(value=answer["value"], seconds=answer["seconds"])
