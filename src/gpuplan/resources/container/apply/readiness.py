"""Probes: one look at whether a container is ready, by the way that its spec names."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from gpuplan.resources.container.apply.engine import explain_engine_errors
from gpuplan.resources.container.apply.triton import (
    ModelState,
    at_start,
    listens,
    models,
    not_serving,
    request,
    version,
)
from gpuplan.resources.container.spec import ContainerSpec
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


STEADY = 1.0
"""Seconds that a container without any probe has to stay up."""
_RESTARTS = 3
_LOG_LINES = 20
_LOG_TAIL = 200
"""Lines of the log that are looked at for those."""
_TABLES = ("|", "+--")
_TELL = 15.0
"""Seconds between two words of progress."""


def wait_ready(
    container: str, address: Address, spec: ContainerSpec, context: ApplyContext, *, takes_over: bool = False
) -> None:
    """Wait up to the spec's time. One that `takes_over` from another has to have all models that it starts with.

    Raises:
        Problem: it ended, or is not ready in time; with its models and the last lines of its log.
    """
    waiting = ReadinessWait(container, address, spec, context, time.monotonic(), STEADY)
    context.say("waiting until it is ready")
    raw = _until_up(waiting)
    if spec.triton:
        context.say(f"Triton {version(context, raw)}")
        _until_loaded(waiting, raw, takes_over=takes_over)
    context.say(f"ready after {waiting.seconds:.1f} s")


def last_words(container: str, context: ApplyContext) -> str:
    """The last lines of a container's log, each of them bounded; without the tables of a server's settings."""
    try:
        raw = context.docker().logs(container, tail=_LOG_TAIL)
    except Exception:  # noqa: BLE001 - a log that cannot be had must not hide why it was wanted
        return ""
    lines = [line for line in raw.decode("utf-8", "replace").splitlines() if line.strip()]
    told = [line[:300] for line in lines if not line.startswith(_TABLES)]
    return "\n".join((told or lines)[-_LOG_LINES:])


def _until_up(waiting: ReadinessWait) -> JsonObject:
    """The inspect data of the container once its probe is content."""
    look, up, spoken, limit = ProbeResult("it has not answered", up=False), False, 0.0, waiting.spec.ready.timeout
    while waiting.seconds <= limit:
        raw = _inspect(waiting)
        _raise_if_ended(waiting, raw)
        look, limit = probe(waiting, raw), patience(waiting, raw)
        if not look.why:
            return raw
        up = up or look.up
        _raise_if_unbooted(waiting, look, up)
        if waiting.seconds - spoken >= _TELL:
            spoken = waiting.seconds
            waiting.context.say(f"not ready yet: {look.why}")
        time.sleep(waiting.spec.ready.interval)
    own = waiting.spec.ready.timeout
    raise Problem(_late(waiting, look.why, own if waiting.seconds < own + _TELL else round(waiting.seconds)))


def _until_loaded(waiting: ReadinessWait, raw: JsonObject, *, takes_over: bool) -> None:
    """Wait for the models that the server starts with; of one that takes over from nobody, some may be broken."""
    wanted = at_start(waiting.address, waiting.context)
    if not wanted:
        return
    while not (found := models(wanted, waiting.context, raw)) or any(each.moving for each in found):
        if waiting.seconds > waiting.spec.ready.timeout:
            why = f"{_names(found)} still loads" if found else "it does not tell its models"
            raise Problem(_late(waiting, why, waiting.spec.ready.timeout))
        time.sleep(waiting.spec.ready.interval)
        _raise_if_ended(waiting, _inspect(waiting))
    if not (broken := [each for each in found if each.failed]):
        waiting.context.say(f"{len(found)} of {len(found)} models are READY")
    elif takes_over:
        detail = f"{waiting.address.name} serves, but not {_names(broken)}, as the one before has to."
        raise Problem(_failed(waiting, "A model did not come up in the new container", detail))
    else:
        for each in broken:
            waiting.context.say(str(each))


def _names(found: Sequence[ModelState]) -> str:
    return ", ".join(each.name for each in found if each.state != "READY")


def _inspect(waiting: ReadinessWait) -> JsonObject:
    with explain_engine_errors(str(waiting.address), "looking at the container"):
        return mapping(waiting.context.docker().inspect_container(waiting.id))


def _raise_if_ended(waiting: ReadinessWait, raw: JsonObject) -> None:
    state = mapping(raw.get("State"))
    looping = whole(raw.get("RestartCount")) >= _RESTARTS
    if state.get("Status") in ("running", "created", "restarting") and not looping:
        return
    memory = " (out of memory)" if state.get("OOMKilled") is True else ""
    again = f" and was restarted {whole(raw.get('RestartCount'))} times" if looping else ""
    code = "" if state.get("Status") == "running" else f" with exit code {whole(state.get('ExitCode'))}"
    detail = f"{waiting.address.name} ended{code}{memory}{again}."
    raise Problem(_failed(waiting, "A container does not stay up", detail))


def _raise_if_unbooted(waiting: ReadinessWait, look: ProbeResult, up: bool) -> None:
    boot = waiting.spec.ready.boot
    if not up and boot is not None and waiting.seconds > boot:
        detail = f"{waiting.address.name} was not up within {boot:g} s: {look.why}."
        raise Problem(_failed(waiting, "A container does not come up", detail))


def _late(waiting: ReadinessWait, why: str, limit: float) -> Diagnostic:
    detail = f"{waiting.address.name} was not ready within {limit:g} s: {why}."
    return _failed(waiting, "A container is not ready", detail)


def _failed(waiting: ReadinessWait, summary: str, detail: str) -> Diagnostic:
    words = last_words(waiting.id, waiting.context)
    said = f"\nIts last words:\n{words}" if words else "\nIt wrote nothing to its log."
    fix = "Look at its log and at what the plan file says of it; raise ready.timeout if it is only slow."
    return Diagnostic(summary, detail + _table(waiting) + said, fix, address=str(waiting.address))


def _table(waiting: ReadinessWait) -> str:
    """The models that a server was to load, where it tells; empty for all other containers."""
    if not waiting.spec.triton:
        return ""
    try:
        found = models(at_start(waiting.address, waiting.context), waiting.context, _inspect(waiting))
    except Problem:
        return ""
    width = max((len(each.name) for each in found), default=0)
    rows = [f"  {each.name:{width}}  {each.state:11}  {each.reason}".rstrip() for each in found]
    return "\n".join(["", "Its models:", *rows]) if rows else ""
