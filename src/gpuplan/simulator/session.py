"""A session with a simulated node: the real agent, the real docker SDK and real HTTP clients over the simulation."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, cast

from gpuplan.agent.agent import Agent
from gpuplan.simulator.connections import Target, forwarded
from gpuplan.simulator.faults import Faults, faults_of
from gpuplan.simulator.hardware import open_store
from gpuplan.simulator.state import mapping, text
from gpuplan.simulator.triton.model_files import NeverAnswers
from gpuplan.simulator.triton.protocol import TritonAnswer, as_error
from gpuplan.simulator.world import SimulatedWorld
from gpuplan.transport.delivery import deliver
from gpuplan.transport.session import DEADLINES, Question
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Exit, Problem, Refused
from gpuplan.types.inventory import Host
from gpuplan.types.snapshot import Probe, ProbeError, Snapshot
from gpuplan.types.value import Content, Json, JsonObject, OnArrived

if TYPE_CHECKING:
    import docker

    from gpuplan.simulator.engine.http import EngineRequest, EngineResponse

_QUESTIONS = ("ask", "blob.missing", "blob.begin", "lock.take", "lock.release")
"""Operations that change nothing of the node."""
_TURN = 0.05
_INFER = re.compile(r"/v2/models/([^/]+)(?:/versions/\d+)?/infer")


class SimulatedSession:
    """One connection to one simulated node; see reach.session.Session.

    `faults` of one's own replace those of the inventory.
    """

    def __init__(self, host: Host, faults: Faults | None = None) -> None:
        self.node = host.name
        self.faults = faults or faults_of(host)
        if self.faults.refuse:
            raise Problem(Diagnostic("Cannot reach the node", f"{self.faults.refuse}.", address=self.node), Exit.UNREAD)
        self.store = open_store(host)
        self._closing = threading.Event()
        self._left = self.faults.drop_after
        self._broken = False
        self._client: docker.APIClient | None = None
        self._turn = threading.Lock()
        self._counting = threading.Lock()
        self._world = SimulatedWorld(host.name, self.store, self.faults, self._closing)
        self._agent = Agent(self._world)

    def ask(self, question: Question) -> Snapshot:
        """One round trip: everything the question names."""
        deadlines = {name: question.deadlines.get(name, DEADLINES.get(name, 15.0)) for name in question.probes}
        reply = self.agent("ask", probes=list(question.probes), plan=question.plan, deadlines=deadlines)
        probes = {name: _probe(mapping(probe)) for name, probe in mapping(reply["probes"]).items()}
        return Snapshot(self.node, probes, text(reply["asked_at"]), _seconds(reply))

    def agent(self, operation: str, **arguments: object) -> JsonObject:
        """One operation of docs/agent.md."""
        return self._operation(operation, arguments, None)

    def send(self, contents: Sequence[Content], arrived: OnArrived) -> None:
        """Bring contents to the node's blobs, as a real session does over one agent."""
        deliver(contents, arrived, self)

    def call(self, operation: str, arguments: Mapping[str, object], body: bytes | None = None) -> JsonObject:
        """One operation with the bytes that follow it."""
        return self._operation(operation, arguments, body)

    def docker(self) -> docker.APIClient:
        """The SDK's client over the simulated engine."""
        self._check()
        if self.faults.docker:
            absent = self.faults.docker == "absent"
            summary = "The node has no Docker engine" if absent else "The Docker engine does not answer"
            raise Problem(Diagnostic(summary, "/var/run/docker.sock.", address=self.node), Exit.UNREAD)
        with self._counting:
            if self._client is None:
                from gpuplan.simulator.connections import simulated_client

                self._client = simulated_client(self.node, self._engine)
            return self._client

    def forward(self, port: int, host: str = "127.0.0.1") -> AbstractContextManager[str]:
        """A local `host:port` that reaches a port of the node."""
        self._check()
        return forwarded(_Port(self, host, port))

    def close(self) -> None:
        """End the connection; gives the node's lock back."""
        self._closing.set()
        self._agent.close()
        if self._client is not None:
            self._client.close()

    def reached(
        self, host: str, port: int, method: str, path: str, body: bytes, head: int | None = None
    ) -> TritonAnswer:
        """One HTTP request to a port of the node; `head` is the size of its JSON where binary tensors follow."""
        if self._broken:
            raise ConnectionResetError(104, "Connection reset by peer")
        if (found := _INFER.fullmatch(path)) and found[1] in self.faults.infer:
            words = self.faults.infer[found[1]]
            if words is None:
                raise NeverAnswers
            return as_error(500, words)
        change = method == "POST" and path.startswith("/v2/repository/models/")
        with self._effect(f"triton.{path.rpartition('/')[2]}"):
            answer = self._world.servers.answer(host, port, method, path, body, head)
        if change:
            self._count("")
        return answer

    def wait(self, seconds: float) -> bool:
        """Wait a moment; True once the session is closed."""
        return self._closing.wait(seconds)

    def listening(self, host: str, port: int) -> str | None:
        """Id of the container that listens there."""
        return self._world.servers.listener(host, port)

    def _operation(self, operation: str, arguments: Mapping[str, object], body: bytes | None) -> JsonObject:
        with self._turn, self._effect(operation):  # one request after the other, as the real agent
            self._check()
            answer = self._agent.handle({"op": operation, **arguments}, body)
        if operation not in _QUESTIONS:
            self._count(operation)
        if "error" in answer:
            error = mapping(answer["error"])
            raise Refused(self.node, operation, text(error["code"]), text(error["text"]))
        return cast("JsonObject", answer["ok"])

    def _engine(self, request: EngineRequest) -> EngineResponse:
        self._check()
        with self._effect(_docker_operation(request)):
            response = self._world.docker_engine.answer(request)
        if request.method not in ("GET", "HEAD"):
            self._count("")
        return response

    @contextmanager
    def _effect(self, operation: str) -> Iterator[None]:
        """Real for most operations; a scratch state for those that are to have no effect."""
        none = operation in self.faults.without_effect
        with self.store.discarding() if none else nullcontext():
            yield

    def _count(self, operation: str) -> None:
        """One more change was made; the connection breaks after the last one that it is to live through."""
        with self._counting:
            if self._left is None:
                return
            self._left -= 1
            left = self._left
        if left <= 0:
            self._broken = True
            self._agent.close()
            raise self._lost(operation)

    def _check(self) -> None:
        if self._broken or self._closing.is_set():
            raise self._lost("")

    def _lost(self, operation: str) -> Problem:
        during = f" during {operation}" if operation else ""
        return ConnectionLost(
            Diagnostic(
                "The connection to the node was lost",
                f"The agent ended or the connection broke{during}.",
                "It is unknown how far the operation got. Run `gpuplan plan` again to see the node's state.",
                address=self.node,
            ),
            Exit.UNREAD,
        )


class _Port(Target):
    """One forwarded port."""

    def __init__(self, session: SimulatedSession, host: str, port: int) -> None:
        self._session = session
        self._host = host
        self._port = port
        self._listener = session.listening(host, port)

    def answer(self, method: str, path: str, body: bytes, head: int | None) -> TritonAnswer:
        try:
            return self._session.reached(self._host, self._port, method, path, body, head)
        except Problem as problem:
            raise ConnectionResetError(104, str(problem)) from None

    def hung(self) -> bool:
        closed = self._session.wait(_TURN)
        return not closed and self._session.listening(self._host, self._port) == self._listener


def _docker_operation(request: EngineRequest) -> str:
    """`docker.create`, `docker.remove`, `docker.pull`, … as faults name them."""
    last = request.path.rpartition("/")[2]
    if request.method == "DELETE":
        return "docker.remove"
    if last == "create" and "/images/" in request.path:
        return "docker.pull"
    return f"docker.{last}" if request.method == "POST" else ""


def _probe(answer: dict[str, object]) -> Probe:
    if "error" in answer:
        error = mapping(answer["error"])
        return Probe(error=ProbeError(text(error["code"]), text(error["text"])), seconds=_seconds(answer))
    return Probe(value=cast("Json", answer["value"]), seconds=_seconds(answer))


def _seconds(answer: Mapping[str, object]) -> float:
    seconds = answer["seconds"]
    return float(seconds) if isinstance(seconds, int | float) else 0.0
