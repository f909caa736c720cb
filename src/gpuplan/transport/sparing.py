"""A session that leaves some probes out of every question."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuplan.transport.session import Question, Session
from gpuplan.types.content import Arrived, Content
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import JsonObject

if TYPE_CHECKING:
    import docker


class SparingSession:
    """Another session, asked for less; what it is spared is `not_asked` in the snapshot."""

    def __init__(self, session: Session, unasked: Collection[str]) -> None:
        self.node = session.node
        self._session = session
        self._unasked = unasked

    def ask(self, question: Question) -> Snapshot:
        """See Session.ask."""
        probes = tuple(name for name in question.probes if name not in self._unasked)
        return self._session.ask(replace(question, probes=probes))

    def agent(self, operation: str, **arguments: object) -> JsonObject:
        """See Session.agent."""
        return self._session.agent(operation, **arguments)

    def send(self, contents: Sequence[Content], arrived: Arrived) -> None:
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
