"""Ready: waits until a started container serves, or says with its last words why it does not."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gpuplan.resources.container.apply.faults import explain_engine_errors
from gpuplan.resources.container.apply.probes import ProbeResult, ReadinessWait, patience, probe
from gpuplan.resources.container.apply.serving import ModelState, at_start, models, version
from gpuplan.resources.container.shape import ContainerSpec
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.snapshot.raw import mapping, whole
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.value import JsonObject

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
