"""A session with a node, by whatever way it is reached: an agent, an engine and forwarded ports."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

from gpuplan.transport.agent_process import AgentProcess
from gpuplan.transport.conversation import Pipe
from gpuplan.transport.delivery import deliver
from gpuplan.transport.session import Question
from gpuplan.types.content import Arrived, Content
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import JsonObject

if TYPE_CHECKING:
    import docker


COURIERS = 3
"""Further agents that bring content at the same time. With the first one they take half of a connection's eight
channels; the engine and forwarded ports need the others."""


class Way(Protocol):
    """A way to one node. Every method but `close` raises Problem with what stands in the way."""

    def program(self) -> Pipe:
        """A program on the node that runs what `bundle` sends it."""
        ...

    def engine(self) -> socket.socket:
        """A new stream to the node's Docker engine. A real socket, since the SDK polls what it reads from."""
        ...

    def forward(self, port: int, host: str) -> AbstractContextManager[str]:
        """See Session.forward."""
        ...

    def close(self) -> None:
        """End all that was opened on it; may be called twice."""
        ...


class NodeSession:
    """One node; see `Session`."""

    def __init__(self, node: str, way: Way) -> None:
        """Start the agent, and own the way from now on; raises Problem where the agent does not start."""
        self.node = node
        self._way = way
        self._docker: docker.APIClient | None = None
        self._connecting = threading.Lock()
        self._opening = threading.Lock()
        self._sending = threading.Lock()
        try:
            self._agent = AgentProcess(node, way.program())
        except BaseException:
            way.close()
            raise

    def ask(self, question: Question) -> Snapshot:
        """See Session.ask."""
        return self._agent.ask(question)

    def agent(self, operation: str, **arguments: object) -> JsonObject:
        """See Session.agent."""
        return self._agent.call(operation, arguments)

    def send(self, contents: Sequence[Content], arrived: Arrived) -> None:
        """See Session.send. One delivery at a time: they would only share the same line."""
        with self._sending:
            deliver(contents, arrived, self._agent, [self._further] * COURIERS)

    def docker(self) -> docker.APIClient:
        """See Session.docker."""
        with self._connecting:
            if self._docker is None:
                from gpuplan.transport.engine import client

                self._docker = client(self.node, self._stream)
            return self._docker

    def forward(self, port: int, host: str = "127.0.0.1") -> AbstractContextManager[str]:
        """See Session.forward."""
        return self._way.forward(port, host)

    def close(self) -> None:
        """See Session.close."""
        if self._docker is not None:
            self._docker.close()
        self._agent.close()
        self._way.close()

    @contextmanager
    def _further(self) -> Iterator[AgentProcess]:
        """One more agent, which holds no lock and only takes content."""
        agent = AgentProcess(self.node, self._way.program())
        try:
            yield agent
        finally:
            agent.close()

    def _stream(self) -> socket.socket:
        with self._opening:
            return self._way.engine()
