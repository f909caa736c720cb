"""Probes: one look at whether a container is ready, by the way that its spec names."""

from __future__ import annotations

import time
from dataclasses import dataclass

from gpuplan.resources.container.apply.faults import explain_engine_errors
from gpuplan.resources.container.apply.inside import listens, request
from gpuplan.resources.container.apply.serving import not_serving
from gpuplan.resources.container.shape import ContainerSpec
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.snapshot.raw import mapping, mappings, whole
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.value import JsonObject

_NO_CHECK = (None, "", "none")
"""What engines say of the health of a container without a health check; the empty text is Podman's."""
_CHECK = {"Interval": 30.0, "Timeout": 30.0, "StartPeriod": 0.0}
"""Seconds that an engine takes where a health check does not say (moby, daemon/health.go)."""
_RETRIES = 3
_OUTPUT = 200
"""Characters of what a health check said that are shown."""
_EXEC_POLL = 0.05


@dataclass(frozen=True)
class ReadinessWait:
    """One wait for one container."""

    id: str
    address: Address
    spec: ContainerSpec
    context: ApplyContext
    began: float
    steady: float
    """Seconds that it has to stay up where nothing else says when it is ready."""

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return time.monotonic() - self.began


@dataclass(frozen=True)
class ProbeResult:
    """What one probe found."""

    why: str = ""
    """Why it is not ready; empty = it is."""
    up: bool = True
    """It runs, and takes connections where it should."""


def probe(waiting: ReadinessWait, raw: JsonObject) -> ProbeResult:
    """Look once. `raw` is the container's inspect data.

    Raises:
        Problem: what was asked for can never be.
    """
    if mapping(raw.get("State")).get("Status") != "running":
        return ProbeResult("it is not running", up=False)
    ready = waiting.spec.ready
    if waiting.spec.triton:
        return ProbeResult(*not_serving(waiting.context, raw))
    if ready.http:
        return _http(waiting, raw)
    if ready.tcp:
        why = listens(waiting.context, raw, ready.tcp)
        return ProbeResult(why, up=not why)
    if ready.exec:
        return ProbeResult(_exec(waiting))
    return ProbeResult(_health(waiting, raw) if ready.healthcheck else _steady(waiting, raw))


def patience(waiting: ReadinessWait, raw: JsonObject) -> float:
    """By when it has to be ready, in seconds since it started. `raw` is its inspect data.

    Where the plan file does not say, a health check that has found nothing yet is waited for: the engine runs it first
    after its interval, and calls the container unhealthy after its start period and so many failures.
    """
    ready = waiting.spec.ready
    status = mapping(mapping(raw.get("State")).get("Health")).get("Status")
    if ready.stated or status != "starting" or waiting.spec.triton or ready.http or ready.tcp or ready.exec:
        return ready.timeout
    check = mapping(mapping(raw.get("Config")).get("Healthcheck"))
    every, each, before = (whole(check.get(name)) / 1e9 or usual for name, usual in _CHECK.items())
    return max(ready.timeout, before + (whole(check.get("Retries")) or _RETRIES) * (every + each))


def _http(waiting: ReadinessWait, raw: JsonObject) -> ProbeResult:
    port, _, path = waiting.spec.ready.http.partition("/")
    status, body = request(waiting.context, raw, int(port), f"/{path}")
    if not status:
        return ProbeResult(f"port {port} does not answer: {body.decode('utf-8', 'replace')}", up=False)
    return ProbeResult("" if 200 <= status < 400 else f"/{path} answers {status}")


def _exec(waiting: ReadinessWait) -> str:
    """The command runs detached and is looked at, so that one that hangs holds up nothing but itself."""
    engine = waiting.context.docker()
    try:
        with explain_engine_errors(str(waiting.address), "running the readiness command"):
            started = engine.exec_create(waiting.id, list(waiting.spec.ready.exec))["Id"]
            engine.exec_start(started, detach=True)
            while (state := engine.exec_inspect(started))["Running"] or state["ExitCode"] is None:
                if waiting.seconds > waiting.spec.ready.timeout:
                    return "the readiness command does not end"
                time.sleep(_EXEC_POLL)
    except Problem as problem:
        return f"the readiness command did not run: {problem.diagnostics[0].detail}"
    return "" if state["ExitCode"] == 0 else f"the readiness command ends with {state['ExitCode']}"


def _health(waiting: ReadinessWait, raw: JsonObject) -> str:
    health = mapping(mapping(raw.get("State")).get("Health"))
    status = health.get("Status")
    if status in _NO_CHECK:
        raise Problem(_without_check(waiting))
    if status == "healthy":
        return ""
    last = next(reversed(list(mappings(health.get("Log")))), {})
    said = " ".join(str(last.get("Output") or "").split())[:_OUTPUT]
    return f"its health check says {status}" + (f" ({said})" if said else "")


def _steady(waiting: ReadinessWait, raw: JsonObject) -> str:
    """Nothing was said of how it is ready: the health check that it has, or that it stays up."""
    if mapping(mapping(raw.get("State")).get("Health")).get("Status") not in _NO_CHECK:
        return _health(waiting, raw)
    if waiting.seconds < waiting.steady:
        return "it has only just started"
    return _ended_unseen(waiting)


def _ended_unseen(waiting: ReadinessWait) -> str:
    """Why the engine's word that it runs is not enough: a busy engine says so for a while after the process ended.

    The list of processes is made at the moment of the question. An engine that has no such list is believed.
    """
    from docker.errors import APIError

    try:
        processes = waiting.context.docker().top(waiting.id).get("Processes")
    except APIError as error:
        return "" if error.status_code == 404 else "the engine lists no process of it"
    except ValueError:  # an empty answer: Podman 4 has no list where it cannot run ps
        return ""
    return "" if processes else "it has no process any more"


def _without_check(waiting: ReadinessWait) -> Diagnostic:
    return Diagnostic(
        "A container has no health check",
        f"ready: says that {waiting.address.name}'s own health check tells when it is ready, and it has none.",
        "Use an image with a HEALTHCHECK, state healthcheck: for the container, or another probe under ready:.",
        address=str(waiting.address),
    )
