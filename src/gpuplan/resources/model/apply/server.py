"""Finds a model server on its node and waits until it answers, also after a restart of its container."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.model.apply.failure import server_unreachable
from gpuplan.resources.model.read import ModelServer, ObservedModels, content_of, read, read_index
from gpuplan.resources.snapshot.containers import EngineContainer
from gpuplan.triton.client import TritonClient
from gpuplan.types.change import Step
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.snapshot import ProbeError

STARTUP_TIMEOUT = 60.0
"""Seconds for the server of a container that was just started."""
RESTART_TIMEOUT = 300.0
"""Seconds for a restarted server to load the models of its list; it answers nothing before."""
STOP_TIMEOUT = 40
"""Seconds between stop signal and kill: a server waits 30 s for requests in flight (--exit-timeout-secs)."""
POLL = 0.5
"""Seconds between two looks at the node."""

Seen = TypeVar("Seen")


@dataclass(frozen=True)
class RunningServer:
    """A running container and the server in it."""

    container: EngineContainer
    server: ModelServer
    looked_at: str
    """Time of the look, by the node's clock."""


def poll(
    look: Callable[[], Seen],
    done: Callable[[Seen], bool],
    seconds: float,
    *,
    pause: Callable[[], None] = lambda: time.sleep(POLL),
    progress: Callable[[Seen], None] = lambda _: None,
) -> Seen:
    """Look until `done`, for `seconds` at most; the last look."""
    deadline = time.monotonic() + seconds
    while not done(seen := look()) and time.monotonic() < deadline:
        progress(seen)
        pause()
    return seen


def look(triton: TritonClient, model: str) -> ModelServer:
    """The index of a server, and the content of one model if it is READY."""
    server = ModelServer(triton.address, read_index(triton.index()), {}, {})
    if not server.ready(model):
        return server
    return ModelServer(triton.address, server.index, {model: content_of(triton.config(model))}, {})


def find_server(step: Step, context: ApplyContext, name: str, *, own_command: bool = False) -> RunningServer | None:
    """The server in the container of this name; None if the container is not running.

    A server that crashed is restarted by the engine and answers once the models of its list are loaded, so a container
    that was just started is waited for.

    Raises:
        Problem: the server does not answer, or the node cannot be read.
    """

    def find() -> RunningServer | str | None:
        """A text says why there is no server yet; Problem is raised if none is expected."""
        snapshot = context.look("docker", "triton")
        observed = read(snapshot)
        container = running_container(step, observed, context.plan, name, own_command=own_command)
        if container is None:
            return None
        server = _server(observed, container)
        if isinstance(server, ModelServer):
            return RunningServer(container, server, snapshot.asked_at)
        if not _just_started(container, snapshot.asked_at):
            raise Problem(server_unreachable(step, name, server))
        return server

    reported: list[str] = []

    def report(_: object) -> None:
        if not reported:
            reported.append(name)
            context.say(f"{name} was just started; waiting for its server")

    server = poll(find, lambda server: not isinstance(server, str), STARTUP_TIMEOUT, progress=report)
    if isinstance(server, str):
        raise Problem(server_unreachable(step, name, server))
    return server


def running_container(
    step: Step, observed: ObservedModels, plan: str, name: str, *, own_command: bool = False
) -> EngineContainer | None:
    """The container if it is running or restarting; raises Problem if the engine did not answer."""
    if isinstance(observed.containers, ProbeError):
        raise Problem(server_unreachable(step, name, observed.containers.text))
    container = observed.container(plan, name, own_command=own_command)
    return container if container is not None and container.busy else None


def restart_container(step: Step, context: ApplyContext, container: EngineContainer) -> None:
    """Restart a container and wait for its server.

    Raises:
        Problem: the engine refuses, or the server does not answer in time.
    """
    from docker.errors import DockerException

    name = container.name
    context.say(f"restarting {name}; its models stop serving")
    try:
        context.docker().restart(container.id, timeout=STOP_TIMEOUT)
    except (DockerException, OSError) as error:
        detail = f"The engine did not restart {name}: {error}."
        fix = f"Check the container: docker inspect {name}"
        raise Problem(Diagnostic("Cannot restart the container", detail, fix, address=str(step.address))) from error

    def find() -> ModelServer | str:
        return _server(read(context.look("docker", "triton")), container)

    server = poll(find, lambda server: isinstance(server, ModelServer), RESTART_TIMEOUT)
    if isinstance(server, str):
        why = f"it did not answer within {RESTART_TIMEOUT:g} s after a restart ({server})"
        raise Problem(server_unreachable(step, name, why))
    ready = [model for model in server.index if server.ready(model)]
    context.say(f"{name} is restarted; READY: {', '.join(ready) or 'no model'}")


def _server(observed: ObservedModels, container: EngineContainer) -> ModelServer | str:
    """The server, or why there is none."""
    if isinstance(observed.servers, ProbeError):
        return observed.servers.text
    server = observed.servers.get(container.id)
    return server.text if isinstance(server, ProbeError) else server or "no Triton server was found in the container"


def _just_started(container: EngineContainer, now: str) -> bool:
    """Whether the engine restarts the container again and again, or started it not long ago."""
    if container.status == "restarting":
        return True
    with contextlib.suppress(ValueError):
        started, looked = (datetime.fromisoformat(timestamp[:19]) for timestamp in (container.started, now))
        return container.status == "running" and (looked - started).total_seconds() < STARTUP_TIMEOUT
    return False
