"""Starts a model server's container anew, so that it gives back its memory, and waits until it serves again."""

from __future__ import annotations

import time

from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.model.read import Server, read
from gpuplan.resources.snapshot.docker import Live
from gpuplan.types.change import Step
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.snapshot import ProbeError

STOPPING = 40
"""Seconds between the stop signal and the kill: a server waits 30 s for requests in flight (--exit-timeout-secs)."""
COMING_UP = 300.0
"""Seconds for the server to load what is listed for its start; it answers nothing before."""
POLL = 0.5


def renew(step: Step, context: ApplyContext, container: Live) -> None:
    """Restart the container and wait for its server.

    Raises:
        Problem: the engine refuses, or the server does not answer in time.
    """
    from docker.errors import DockerException

    context.say(f"restarting {container.name}; its models stop serving")
    try:
        context.docker().restart(container.id, timeout=STOPPING)
    except (DockerException, OSError) as fault:
        raise Problem(_refused(step, container, str(fault))) from fault
    deadline = time.monotonic() + COMING_UP
    while (server := _server(context, container)) is None:
        if time.monotonic() >= deadline:
            raise Problem(_silent(step, container))
        time.sleep(POLL)
    ready = [model for model in server.index if server.ready(model)]
    context.say(f"{container.name} is back, with {', '.join(ready) if ready else 'no model'} READY")


def _server(context: ApplyContext, container: Live) -> Server | None:
    servers = read(context.look("docker", "triton")).servers
    found = None if isinstance(servers, ProbeError) else servers.get(container.id)
    return found if isinstance(found, Server) else None


def _refused(step: Step, container: Live, why: str) -> Diagnostic:
    detail = f"{container.name} could not be restarted: {why}."
    return Diagnostic("A container was not restarted", detail, "Look at it: docker ps -a", address=str(step.address))


def _silent(step: Step, container: Live) -> Diagnostic:
    return Diagnostic(
        "A model server does not come back",
        f"{container.name} was restarted, and its server does not answer after {COMING_UP:g} s.",
        f"Look at its log: docker logs {container.name}",
        address=str(step.address),
    )
