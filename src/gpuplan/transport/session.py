"""A session: one open connection to one node, and everything that can be asked of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import Content, JsonObject, OnArrived

if TYPE_CHECKING:
    import docker

PROBES = ("host", "gpu", "docker", "access", "toolkit", "triton", "repository", "record", "others")
DEADLINES: Mapping[str, float] = {
    "host": 5.0,
    "gpu": 20.0,
    "docker": 20.0,
    "access": 10.0,
    "toolkit": 5.0,
    "triton": 20.0,
    "repository": 120.0,
    "record": 5.0,
    "others": 10.0,
}
"""Seconds that each probe may take; a node that hangs in one is still heard about the others."""


@dataclass(frozen=True)
class Question:
    """What a node is asked: which probes, on behalf of which plan file."""

    plan: str
    probes: Sequence[str] = PROBES
    deadlines: Mapping[str, float] = field(default_factory=lambda: DEADLINES)
    images: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Node → images whose registries are asked as well, through that node's engine; they are not sent to the agent."""


class Session(Protocol):
    """One connection to one node, which several threads may use at once; closing it gives the node's lock back.

    Every method raises `Problem` with what went wrong and what to do: the connection broke, sudo was refused, the agent
    could not start. An operation that the agent refuses raises `Refused`, which is a `Problem` with the agent's code.
    """

    node: str

    def ask(self, question: Question) -> Snapshot:
        """One round trip: everything the question names."""
        ...

    def agent(self, operation: str, **arguments: object) -> JsonObject:
        """One operation of docs/agent.md."""
        ...

    def send(self, contents: Sequence[Content], arrived: OnArrived) -> None:
        """Bring contents to the node's blobs, several at a time; each goes on where it was cut off before.

        The node checks each SHA-256, and refuses one that differs as `corrupt`. `arrived` is called from any thread.
        """
        ...

    def docker(self) -> docker.APIClient:
        """The node's Docker engine, its API version negotiated; one client for the whole session."""
        ...

    def forward(self, port: int, host: str = "127.0.0.1") -> AbstractContextManager[str]:
        """A local `host:port` that reaches `host`:`port` as the node sees it, as long as the context is open."""
        ...

    def close(self) -> None:
        """End the connection and everything that runs for it; may be called twice."""
        ...
