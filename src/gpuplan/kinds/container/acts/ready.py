"""Ready: waits until a started container serves, or says with its last words why it does not."""

from __future__ import annotations

import http.client
import json
import socket
import time
from contextlib import suppress
from dataclasses import dataclass

from gpuplan.kinds.container.acts.faults import told
from gpuplan.kinds.container.shape import TRITON_PORT, ContainerSpec
from gpuplan.kinds.ground.raw import mapping, mappings, whole
from gpuplan.kinds.room import Hands
from gpuplan.model.address import Address
from gpuplan.model.diagnostic import Diagnostic, Problem
from gpuplan.model.value import JsonObject

POLL = 0.25
"""Seconds between two looks."""
STEADY = 1.0
"""Seconds that a container without any probe has to stay up."""
_RESTARTS = 3
_LOG_LINES = 20


@dataclass(frozen=True)
class Waiting:
    """One wait for one container."""

    id: str
    address: Address
    spec: ContainerSpec
    hands: Hands
    began: float


def wait_ready(container: str, address: Address, spec: ContainerSpec, hands: Hands) -> None:
    """Wait up to the spec's time.

    Raises:
        Problem: it ended, or is not ready in time; with the last lines of its log.
    """
    waiting = Waiting(container, address, spec, hands, time.monotonic())
    hands.say("waiting until it is ready")
    why = "it has not answered"
    while time.monotonic() - waiting.began <= spec.ready.timeout:
        raw = _inspect(waiting)
        _raise_if_ended(waiting, raw)
        why = _not_ready(waiting, raw)
        if not why:
            hands.say(f"ready after {time.monotonic() - waiting.began:.1f} s")
            return
        time.sleep(POLL)
    raise Problem(_late(waiting, why))


def last_words(container: str, hands: Hands) -> str:
    """The last lines of a container's log, each of them bounded."""
    try:
        raw = hands.docker().logs(container, tail=_LOG_LINES)
    except Exception:  # noqa: BLE001 - a log that cannot be had must not hide why it was wanted
        return ""
    lines = raw.decode("utf-8", "replace").splitlines()
    return "\n".join(line[:300] for line in lines if line.strip())


def _inspect(waiting: Waiting) -> JsonObject:
    with told(str(waiting.address), "looking at the container"):
        return mapping(waiting.hands.docker().inspect_container(waiting.id))


def _raise_if_ended(waiting: Waiting, raw: JsonObject) -> None:
    state = mapping(raw.get("State"))
    looping = whole(raw.get("RestartCount")) >= _RESTARTS
    if state.get("Status") in ("running", "created", "restarting") and not looping:
        return
    memory = " (out of memory)" if state.get("OOMKilled") is True else ""
    again = f" and was restarted {whole(raw.get('RestartCount'))} times" if looping else ""
    detail = f"{waiting.address.name} ended with exit code {whole(state.get('ExitCode'))}{memory}{again}."
    raise Problem(_failed(waiting, "A container does not stay up", detail))


def _not_ready(waiting: Waiting, raw: JsonObject) -> str:
    """Why it is not ready yet; empty = it is."""
    if mapping(raw.get("State")).get("Status") != "running":
        return "it is not running"
    ready = waiting.spec.ready
    if waiting.spec.triton:
        why = _triton(waiting, raw)
    elif ready.http:
        port, _, path = ready.http.partition("/")
        why = _http(waiting, raw, int(port), f"/{path}")
    elif ready.tcp:
        why = _tcp(waiting, raw, ready.tcp)
    elif ready.exec:
        why = _exec(waiting)
    else:
        why = _steady(waiting, raw)
    return why


def _steady(waiting: Waiting, raw: JsonObject) -> str:
    """Nothing was said of how it is ready: the image's own health check, or that it stays up."""
    if health := mapping(mapping(raw.get("State")).get("Health")).get("Status"):
        return "" if health in ("healthy", "none") else f"its health check says {health}"
    if time.monotonic() - waiting.began < STEADY:
        return "it has only just started"
    return _ended_unseen(waiting)


def _ended_unseen(waiting: Waiting) -> str:
    """Why the engine's word that it runs is not enough: a busy engine says so for a while after the process ended.

    The list of processes is made at the moment of the question. An engine that has no such list is believed.
    """
    from docker.errors import APIError

    try:
        processes = waiting.hands.docker().top(waiting.id).get("Processes")
    except APIError as error:
        return "" if error.status_code == 404 else "the engine lists no process of it"
    return "" if processes else "it has no process any more"


def _triton(waiting: Waiting, raw: JsonObject) -> str:
    if why := _http(waiting, raw, TRITON_PORT, "/v2/health/live"):
        return why
    status, body = _get(waiting, raw, TRITON_PORT, "/v2")
    with suppress(ValueError):
        metadata = mapping(json.loads(body))
        if status == 200 and metadata.get("version"):
            waiting.hands.say(f"Triton {metadata['version']}")
            return ""
    return "the server does not tell its metadata"


def _http(waiting: Waiting, raw: JsonObject, port: int, path: str) -> str:
    status, body = _get(waiting, raw, port, path)
    if not status:
        return f"port {port} does not answer: {body.decode('utf-8', 'replace')}"
    return "" if 200 <= status < 400 else f"{path} answers {status}"


def _get(waiting: Waiting, raw: JsonObject, port: int, path: str) -> tuple[int, bytes]:
    host, outer = _reachable(raw, port)
    try:
        with waiting.hands.forward(outer, host) as local:
            connection = http.client.HTTPConnection(local, timeout=5)
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read(1 << 20)
            finally:
                connection.close()
    except (OSError, http.client.HTTPException, Problem) as fault:
        return 0, str(fault).encode() or type(fault).__name__.encode()


def _tcp(waiting: Waiting, raw: JsonObject, port: int) -> str:
    """A forwarded connection opens even when nobody listens behind it, and is then closed at once."""
    host, outer = _reachable(raw, port)
    try:
        with waiting.hands.forward(outer, host) as local:
            name, _, number = local.rpartition(":")
            with socket.create_connection((name, int(number)), timeout=5) as opened:
                opened.settimeout(POLL)
                return "" if opened.recv(1) else f"nobody listens on port {port}"
    except TimeoutError:
        return ""
    except (OSError, Problem) as fault:
        return f"port {port} does not answer: {fault}"


def _exec(waiting: Waiting) -> str:
    engine = waiting.hands.docker()
    try:
        with told(str(waiting.address), "running the readiness command"):
            started = engine.exec_create(waiting.id, list(waiting.spec.ready.exec))
            engine.exec_start(started["Id"])
            code = engine.exec_inspect(started["Id"])["ExitCode"]
    except Problem as problem:
        return f"the readiness command did not run: {problem.diagnostics[0].detail}"
    return "" if code == 0 else f"the readiness command ends with {code}"


def _reachable(raw: JsonObject, port: int) -> tuple[str, int]:
    """Where a port of a container is reached from its node: as published, else at the container's own address."""
    if mapping(raw.get("HostConfig")).get("NetworkMode") == "host":
        return "127.0.0.1", port
    network = mapping(raw.get("NetworkSettings"))
    for side in mappings(mapping(network.get("Ports")).get(f"{port}/tcp")):
        address = str(side.get("HostIp") or "")
        anywhere = address in ("", "0.0.0.0", "::")  # noqa: S104 - what the engine says of a published port
        return ("127.0.0.1" if anywhere else address), int(str(side["HostPort"]))
    inside = str(network.get("IPAddress") or "")
    networks = mapping(network.get("Networks")).values()
    own = (str(mapping(each).get("IPAddress") or "") for each in networks)
    return inside or next((address for address in own if address), "127.0.0.1"), port


def _late(waiting: Waiting, why: str) -> Diagnostic:
    detail = f"{waiting.address.name} was not ready within {waiting.spec.ready.timeout:g} s: {why}."
    return _failed(waiting, "A container is not ready", detail)


def _failed(waiting: Waiting, summary: str, detail: str) -> Diagnostic:
    words = last_words(waiting.id, waiting.hands)
    told_words = f"\nIts last words:\n{words}" if words else ""
    fix = "Look at its log (docker logs) and at what the plan file says of it; a larger ready.timeout if it is slow."
    return Diagnostic(summary, detail + told_words, fix, address=str(waiting.address))
