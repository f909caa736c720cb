"""What every handler of the engine's API works on, and how it reads or changes it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass

from gpuplan.simulator.engine.http import Request, Response, answer
from gpuplan.simulator.machine import Machine
from gpuplan.simulator.state import NodeState
from gpuplan.simulator.store import Store


@dataclass(frozen=True)
class Daemon:
    """The engine of one node. `closing` ends requests that wait for something to happen."""

    store: Store
    machine: Machine
    closing: threading.Event


Handler = Callable[[Daemon, Request, str], Response]
"""Answers a request; the text is what the path names, such as a container."""
Route = tuple[str, re.Pattern[str], Handler]


def route(method: str, path: str, handler: Handler) -> Route:
    """A handler for requests of this method whose whole path matches."""
    return method, re.compile(path), handler


def reading(act: Callable[[NodeState, Request, str], object]) -> Handler:
    """A handler that reads the state and answers JSON."""
    return lambda daemon, request, name: answer(act(daemon.store.read(), request, name))


def changing(act: Callable[[Daemon, NodeState, Request, str], Response]) -> Handler:
    """A handler that changes the state; what it raises undoes the change."""

    def handle(daemon: Daemon, request: Request, name: str) -> Response:
        with daemon.store.write() as state:
            return act(daemon, state, request, name)

    return handle
