"""Finds the container of a model server and the server in it, and waits for one that has only just been started."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from datetime import datetime

from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.model.failure import no_server
from gpuplan.resources.model.read import Observed, Server, read
from gpuplan.resources.snapshot.docker import Live
from gpuplan.types.change import Step
from gpuplan.types.diagnostic import Problem
from gpuplan.types.snapshot import ProbeError

YOUNG = 60.0
"""Seconds since its start within which a container's server may still be on its way, and is waited for."""
POLL = 0.5
"""Seconds between two looks at the node."""


@dataclass(frozen=True)
class Found:
    """A container that runs, and the server in it."""

    container: Live
    server: Server
    at: str
    """When it was looked at, by the clock of the node."""


def find(step: Step, context: ApplyContext, name: str, *, own: bool = False) -> Found | None:
    """The container and its server; None where the container does not run. `own`: its own command starts the server.

    A server that died, by itself or because somebody killed it, is started again by the engine and answers nobody until
    it has loaded what is listed for its start: nothing is wrong with it.

    Raises:
        Problem: there is nobody to ask, or it cannot be told.
    """
    deadline, told = time.monotonic() + YOUNG, False
    while True:
        snapshot = context.look("docker", "triton")
        observed = read(snapshot)
        container = running(step, observed, context.plan, name, own=own)
        if container is None:
            return None
        server = _server(observed, container)
        if isinstance(server, Server):
            return Found(container, server, snapshot.asked_at)
        if not _comes(container, snapshot.asked_at) or time.monotonic() >= deadline:
            raise Problem(no_server(step, name, server))
        if not told:
            context.say(f"{name} was just started; waiting for its server")
        told = True
        time.sleep(POLL)


def running(step: Step, observed: Observed, plan: str, name: str, *, own: bool = False) -> Live | None:
    """The container where it runs, or will in a moment; raises Problem where the engine does not tell."""
    if isinstance(observed.containers, ProbeError):
        raise Problem(no_server(step, name, observed.containers.text))
    container = observed.container(plan, name, own=own)
    return container if container is not None and container.busy else None


def _server(observed: Observed, container: Live) -> Server | str:
    """The server, or why there is none."""
    if isinstance(observed.servers, ProbeError):
        return observed.servers.text
    server = observed.servers.get(container.id)
    return server.text if isinstance(server, ProbeError) else server or "the node did not find it"


def _comes(container: Live, asked: str) -> bool:
    """True where the engine starts the container again and again, or has started it not long ago."""
    if container.status == "restarting":
        return True
    with contextlib.suppress(ValueError):
        started, now = (datetime.fromisoformat(moment[:19]) for moment in (container.started, asked))
        return container.status == "running" and (now - started).total_seconds() < YOUNG
    return False
