"""Connecting to a node in the way that the inventory says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from gpuplan.transport.agent_process import AgentProcess
from gpuplan.transport.delivery import deliver
from gpuplan.transport.pipe import Pipe
from gpuplan.transport.session import Question, Session
from gpuplan.types.inventory import Connection, Host
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import Content, JsonObject, OnArrived

# A session with a node, by whatever way it is reached: an agent, an engine and forwarded ports.

if TYPE_CHECKING:
    import docker


EXTRA_AGENTS = 3
"""Further agents that bring content at the same time. With the first one they take half of a connection's eight
channels; the engine and forwarded ports need the others."""


class NodeConnection(Protocol):
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

    def __init__(self, node: str, connection: NodeConnection) -> None:
        """Start the agent, and own the way from now on; raises Problem where the agent does not start."""
        self.node = node
        self._connection = connection
        self._docker: docker.APIClient | None = None
        self._connecting = threading.Lock()
        self._opening = threading.Lock()
        self._sending = threading.Lock()
        try:
            self._agent = AgentProcess(node, connection.program())
        except BaseException:
            connection.close()
            raise

    def ask(self, question: Question) -> Snapshot:
        """See Session.ask."""
        return self._agent.ask(question)

    def agent(self, operation: str, **arguments: object) -> JsonObject:
        """See Session.agent."""
        return self._agent.call(operation, arguments)

    def send(self, contents: Sequence[Content], arrived: OnArrived) -> None:
        """See Session.send. One delivery at a time: they would only share the same line."""
        with self._sending:
            deliver(contents, arrived, self._agent, [self._extra_agent] * EXTRA_AGENTS)

    def docker(self) -> docker.APIClient:
        """See Session.docker."""
        with self._connecting:
            if self._docker is None:
                from gpuplan.transport.docker_client import client

                self._docker = client(self.node, self._stream)
            return self._docker

    def forward(self, port: int, host: str = "127.0.0.1") -> AbstractContextManager[str]:
        """See Session.forward."""
        return self._connection.forward(port, host)

    def close(self) -> None:
        """See Session.close."""
        if self._docker is not None:
            self._docker.close()
        self._agent.close()
        self._connection.close()

    @contextmanager
    def _extra_agent(self) -> Iterator[AgentProcess]:
        """One more agent, which holds no lock and only takes content."""
        agent = AgentProcess(self.node, self._connection.program())
        try:
            yield agent
        finally:
            agent.close()

    def _stream(self) -> socket.socket:
        with self._opening:
            return self._connection.engine()


# A session that leaves some probes out of every question.

if TYPE_CHECKING:
    import docker


class FilteredSession:
    """Another session, asked for less; what it is spared is `not_asked` in the snapshot."""

    def __init__(self, session: Session, skipped_probes: Collection[str]) -> None:
        self.node = session.node
        self._session = session
        self._skipped_probes = skipped_probes

    def ask(self, question: Question) -> Snapshot:
        """See Session.ask."""
        probes = tuple(name for name in question.probes if name not in self._skipped_probes)
        return self._session.ask(replace(question, probes=probes))

    def agent(self, operation: str, **arguments: object) -> JsonObject:
        """See Session.agent."""
        return self._session.agent(operation, **arguments)

    def send(self, contents: Sequence[Content], arrived: OnArrived) -> None:
        """See Session.send."""
        self._session.send(contents, arrived)

    def docker(self) -> docker.APIClient:
        """See Session.docker."""
        return self._session.docker()

    def forward(self, port: int, host: str = "127.0.0.1") -> AbstractContextManager[str]:
        """See Session.forward."""
        return self._session.forward(port, host)

    def close(self) -> None:
        """See Session.close."""
        self._session.close()


def connect(host: Host) -> Session:
    """A session with the node; close it.

    Raises:
        Problem: the node could not be reached; says why and what to do.
    """
    session = _session(host)
    return FilteredSession(session, host.skipped_probes) if host.skipped_probes else session


def _session(host: Host) -> Session:
    match host.connection:
        case Connection.SSH:
            from gpuplan.transport.ssh.connection import SshConnection

            return NodeSession(host.name, SshConnection(host))
        case Connection.LOCAL:
            from gpuplan.transport.local import LocalConnection

            return NodeSession(host.name, LocalConnection(host))
        case Connection.SIMULATED:
            from gpuplan.simulator.session import SimulatedSession

            return SimulatedSession(host)
