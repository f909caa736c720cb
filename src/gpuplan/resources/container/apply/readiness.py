"""Readiness: waits until a started container is ready, or fails with its models and the end of its log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from gpuplan.resources.container.apply.engine import EngineContext
from gpuplan.resources.container.apply.triton import (
    ModelState,
    model_states,
    models_at_start,
    request,
    version,
    why_not_listening,
    why_not_live,
)
from gpuplan.resources.container.spec import ContainerSpec
from gpuplan.resources.kind import ApplyContext
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.value import JsonObject, integer, mapping, mappings

STEADY = 1.0
"""Seconds that a container without any readiness probe has to stay up."""
_NO_HEALTHCHECK = (None, "", "none")
"""Health status that engines report for a container without a health check; Podman's is the empty text."""
_HEALTHCHECK_DEFAULTS = {"Interval": 30.0, "Timeout": 30.0, "StartPeriod": 0.0}
"""Seconds that an engine uses if a health check does not state them (moby, daemon/health.go)."""
_HEALTHCHECK_RETRIES = 3
_OUTPUT_LENGTH = 200
"""Characters of a health check's output that are shown."""
_EXEC_POLL = 0.05
_RESTARTS = 3
_LOG_LINES = 20
_LOG_TAIL = 200
"""Lines of the log that are read to find those."""
_TABLES = ("|", "+--")
_REPORT_INTERVAL = 15.0
"""Seconds between two progress reports."""


@dataclass(frozen=True)
class ReadinessWait:
    """One wait for one container."""

    id: str
    engine: EngineContext
    spec: ContainerSpec
    began: float

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return time.monotonic() - self.began


@dataclass(frozen=True)
class ProbeResult:
    """The result of one readiness probe."""

    why: str = ""
    """Why the container is not ready; empty if it is."""
    up: bool = True
    """It runs, and accepts connections if the probe connects to it."""


def wait_ready(container_id: str, engine: EngineContext, spec: ContainerSpec, *, replaces: bool = False) -> None:
    """Wait until a container is ready, at most for the spec's time.

    A model server that `replaces` another one must have all its models READY; otherwise some may be broken.

    Raises:
        Problem: it ended, or is not ready in time.
    """
    wait = ReadinessWait(container_id, engine, spec, time.monotonic())
    engine.say("waiting until it is ready")
    raw = _wait_up(wait)
    if spec.triton:
        engine.say(f"Triton {version(engine.apply, raw)}")
        _wait_models(wait, raw, replaces=replaces)
    engine.say(f"ready after {wait.seconds:.1f} s")


def log_tail(container_id: str, context: ApplyContext) -> str:
    """The last lines of a container's log, each bounded, without the tables of a server's settings."""
    try:
        raw = context.docker().logs(container_id, tail=_LOG_TAIL)
    except Exception:  # noqa: BLE001 - an unreadable log must not hide the failure that it would explain
        return ""
    lines = [line for line in raw.decode("utf-8", "replace").splitlines() if line.strip()]
    shown = [line[:300] for line in lines if not line.startswith(_TABLES)]
    return "\n".join((shown or lines)[-_LOG_LINES:])


def probe(wait: ReadinessWait, raw: JsonObject) -> ProbeResult:
    """Probe once, by the method that the spec states. `raw` is the container's inspect data.

    Raises:
        Problem: the probe can never succeed.
    """
    if mapping(raw.get("State")).get("Status") != "running":
        return ProbeResult("it is not running", up=False)
    ready = wait.spec.ready
    if wait.spec.triton:
        return ProbeResult(*why_not_live(wait.engine.apply, raw))
    if ready.http:
        return _probe_http(wait, raw)
    if ready.tcp:
        why = why_not_listening(wait.engine.apply, raw, ready.tcp)
        return ProbeResult(why, up=not why)
    if ready.exec:
        return ProbeResult(_probe_exec(wait))
    return ProbeResult(_probe_health(wait, raw) if ready.healthcheck else _probe_steady(wait, raw))


def readiness_timeout(wait: ReadinessWait, raw: JsonObject) -> float:
    """Seconds since its start within which the container has to be ready. `raw` is its inspect data.

    If the plan file states no timeout, a health check that is still starting gets its own time: the engine runs it
    first after its interval, and reports unhealthy after the start period and that many failures.
    """
    ready = wait.spec.ready
    status = mapping(mapping(raw.get("State")).get("Health")).get("Status")
    if ready.stated or status != "starting" or wait.spec.triton or ready.http or ready.tcp or ready.exec:
        return ready.timeout
    check = mapping(mapping(raw.get("Config")).get("Healthcheck"))
    interval, timeout, start = (integer(check.get(key)) / 1e9 or usual for key, usual in _HEALTHCHECK_DEFAULTS.items())
    retries = integer(check.get("Retries")) or _HEALTHCHECK_RETRIES
    return max(ready.timeout, start + retries * (interval + timeout))


def _probe_http(wait: ReadinessWait, raw: JsonObject) -> ProbeResult:
    port, _, path = wait.spec.ready.http.partition("/")
    status, body = request(wait.engine.apply, raw, int(port), f"/{path}")
    if not status:
        return ProbeResult(f"port {port} does not answer: {body.decode('utf-8', 'replace')}", up=False)
    return ProbeResult("" if 200 <= status < 400 else f"/{path} answers {status}")


def _probe_exec(wait: ReadinessWait) -> str:
    """Run the command detached and poll it, so that a command that hangs does not block the wait."""
    docker = wait.engine.docker
    try:
        with wait.engine.explain_errors("running the readiness command"):
            started = docker.exec_create(wait.id, list(wait.spec.ready.exec))["Id"]
            docker.exec_start(started, detach=True)
            while (state := docker.exec_inspect(started))["Running"] or state["ExitCode"] is None:
                if wait.seconds > wait.spec.ready.timeout:
                    return "the readiness command does not end"
                time.sleep(_EXEC_POLL)
    except Problem as problem:
        return f"the readiness command did not run: {problem.diagnostics[0].detail}"
    return "" if state["ExitCode"] == 0 else f"the readiness command exits with code {state['ExitCode']}"


def _probe_health(wait: ReadinessWait, raw: JsonObject) -> str:
    health = mapping(mapping(raw.get("State")).get("Health"))
    status = health.get("Status")
    if status in _NO_HEALTHCHECK:
        raise Problem(
            Diagnostic(
                "The container has no health check",
                f"{wait.engine.name} states ready.healthcheck, but neither its image nor the plan file has one.",
                "Use an image with a HEALTHCHECK, add healthcheck: to the container, or use another probe in ready:.",
                address=str(wait.engine.address),
            )
        )
    if status == "healthy":
        return ""
    last = next(reversed(list(mappings(health.get("Log")))), {})
    output = " ".join(str(last.get("Output") or "").split())[:_OUTPUT_LENGTH]
    return f"its health check reports {status}" + (f" ({output})" if output else "")


def _probe_steady(wait: ReadinessWait, raw: JsonObject) -> str:
    """Without a stated probe: the container's health check if it has one, or that it stays up."""
    if mapping(mapping(raw.get("State")).get("Health")).get("Status") not in _NO_HEALTHCHECK:
        return _probe_health(wait, raw)
    if wait.seconds < STEADY:
        return "it has just started"
    return _why_no_process(wait)


def _why_no_process(wait: ReadinessWait) -> str:
    """A busy engine may report a container as running after its process ended, so ask for its processes.

    An engine that cannot list processes is believed.
    """
    from docker.errors import APIError

    try:
        processes = wait.engine.docker.top(wait.id).get("Processes")
    except APIError as error:
        return "" if error.status_code == 404 else "the engine lists no process in it"
    except ValueError:  # an empty answer: Podman 4 lists nothing if it cannot run ps
        return ""
    return "" if processes else "its process has ended"


def _wait_up(wait: ReadinessWait) -> JsonObject:
    """The inspect data of the container when its probe succeeds."""
    result, was_up, reported = ProbeResult("it has not answered", up=False), False, 0.0
    limit = wait.spec.ready.timeout
    while wait.seconds <= limit:
        raw = _inspect(wait)
        _raise_if_ended(wait, raw)
        result, limit = probe(wait, raw), readiness_timeout(wait, raw)
        if not result.why:
            return raw
        was_up = was_up or result.up
        _raise_if_boot_is_late(wait, result, was_up)
        if wait.seconds - reported >= _REPORT_INTERVAL:
            reported = wait.seconds
            wait.engine.say(f"not ready yet: {result.why}")
        time.sleep(wait.spec.ready.interval)
    stated = wait.spec.ready.timeout
    waited = stated if wait.seconds < stated + _REPORT_INTERVAL else round(wait.seconds)
    raise Problem(_not_ready(wait, result.why, waited))


def _wait_models(wait: ReadinessWait, raw: JsonObject, *, replaces: bool) -> None:
    names = models_at_start(wait.engine.address, wait.engine.apply)
    if not names:
        return
    while not (models := model_states(names, wait.engine.apply, raw)) or any(model.moving for model in models):
        if wait.seconds > wait.spec.ready.timeout:
            why = f"still loading {_not_ready_names(models)}" if models else "the server does not report its models"
            raise Problem(_not_ready(wait, why, wait.spec.ready.timeout))
        time.sleep(wait.spec.ready.interval)
        _raise_if_ended(wait, _inspect(wait))
    broken = [model for model in models if model.failed]
    if broken and replaces:
        detail = f"{wait.engine.name} is up, but not all models of the previous container are READY: " + (
            f"{_not_ready_names(broken)}."
        )
        raise Problem(_failure(wait, "A model failed to load in the new container", detail))
    for model in broken:
        wait.engine.say(str(model))
    if not broken:
        wait.engine.say(f"{len(models)} of {len(models)} models are READY")


def _not_ready_names(models: Sequence[ModelState]) -> str:
    return ", ".join(model.name for model in models if model.state != "READY")


def _inspect(wait: ReadinessWait) -> JsonObject:
    with wait.engine.explain_errors("inspecting the container"):
        return mapping(wait.engine.docker.inspect_container(wait.id))


def _raise_if_ended(wait: ReadinessWait, raw: JsonObject) -> None:
    state, restarts = mapping(raw.get("State")), integer(raw.get("RestartCount"))
    looping = restarts >= _RESTARTS
    if state.get("Status") in ("running", "created", "restarting") and not looping:
        return
    memory = " (out of memory)" if state.get("OOMKilled") is True else ""
    restarted = f" and was restarted {restarts} times" if looping else ""
    code = "" if state.get("Status") == "running" else f" with exit code {integer(state.get('ExitCode'))}"
    detail = f"{wait.engine.name} ended{code}{memory}{restarted}."
    raise Problem(_failure(wait, "Container does not stay up", detail))


def _raise_if_boot_is_late(wait: ReadinessWait, result: ProbeResult, was_up: bool) -> None:
    boot = wait.spec.ready.boot
    if not was_up and boot is not None and wait.seconds > boot:
        detail = f"{wait.engine.name} was not up within {boot:g} s (ready.boot): {result.why}."
        raise Problem(_failure(wait, "Container did not come up", detail))


def _not_ready(wait: ReadinessWait, why: str, limit: float) -> Diagnostic:
    detail = f"{wait.engine.name} was not ready within {limit:g} s: {why}."
    return _failure(wait, "Container is not ready", detail)


def _failure(wait: ReadinessWait, summary: str, detail: str) -> Diagnostic:
    tail = log_tail(wait.id, wait.engine.apply)
    log = f"\nIts last log lines:\n{tail}" if tail else "\nIts log is empty."
    fix = "Check its log and its settings in the plan file; if it is only slow, raise ready.timeout."
    return Diagnostic(summary, detail + _model_table(wait) + log, fix, address=str(wait.engine.address))


def _model_table(wait: ReadinessWait) -> str:
    """The models that a server should load, if it reports them; empty for other containers."""
    if not wait.spec.triton:
        return ""
    context = wait.engine.apply
    try:
        models = model_states(models_at_start(wait.engine.address, context), context, _inspect(wait))
    except Problem:
        return ""
    width = max((len(model.name) for model in models), default=0)
    rows = [f"  {model.name:{width}}  {model.state:11}  {model.reason}".rstrip() for model in models]
    return "\n".join(["", "Its models:", *rows]) if rows else ""
