"""Inside: asks what listens on a port inside a container, from its node."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from gpuplan.resources.container.apply.engine import explain_engine_errors
from gpuplan.resources.container.spec import TRITON_PORT
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.labels import TRITON
from gpuplan.resources.snapshot.raw import mapping, mappings, texts, whole
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Problem
from gpuplan.types.value import Json, JsonObject

PATIENCE = 5.0
"""Seconds for a connection, and for an answer."""
_LARGEST = 4 << 20
_LISTENS = 0.25
"""Seconds after which a connection that was not closed has somebody at its other end."""


def request(context: ApplyContext, raw: JsonObject, port: int, path: str, verb: str = "GET") -> tuple[int, bytes]:
    """Status and body of the answer; status 0, and why, where nobody answers. `raw` is the container's inspect data."""
    host, outer = reachable(raw, port)
    try:
        with context.forward(outer, host) as local:
            return _ask(local, verb, path)
    except (ConnectionError, http.client.RemoteDisconnected):
        return 0, b"nobody listens there"
    except (OSError, http.client.HTTPException, Problem) as fault:
        return 0, str(fault).encode() or type(fault).__name__.encode()


def listens(context: ApplyContext, raw: JsonObject, port: int) -> str:
    """Why nobody takes connections there; empty = somebody does.

    A forwarded connection opens even when nobody listens behind it, and is then closed at once.
    """
    host, outer = reachable(raw, port)
    try:
        with context.forward(outer, host) as local:
            name, _, number = local.rpartition(":")
            with socket.create_connection((name, int(number)), timeout=PATIENCE) as opened:
                opened.settimeout(_LISTENS)
                return "" if opened.recv(1) else f"nobody listens on port {port}"
    except TimeoutError:
        return ""
    except ConnectionError:
        return f"nobody listens on port {port}"
    except (OSError, Problem) as fault:
        return f"port {port} does not answer: {fault}"


def reachable(raw: JsonObject, port: int) -> tuple[str, int]:
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


def _ask(local: str, verb: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(local, timeout=PATIENCE)
    try:
        connection.request(verb, path)
        answer = connection.getresponse()
        return answer.status, answer.read(_LARGEST)
    finally:
        connection.close()


_METRICS_PORT = 8002
_PENDING = "nv_inference_pending_request_count"
_MOVING = ("LOADING", "UNLOADING")
_REASON = 300
"""Characters of a reason that are shown."""


@dataclass(frozen=True)
class ModelState:
    """One model of a server that was asked to load it, in one word and with the server's reason."""

    name: str
    state: str
    reason: str = ""

    @property
    def moving(self) -> bool:
        """True while it may still become ready."""
        return self.state in _MOVING

    @property
    def failed(self) -> bool:
        """True where it will not become ready by itself."""
        return self.state != "READY" and not self.moving

    def __str__(self) -> str:
        return f"{self.name} is {self.state}" + (f": {self.reason}" if self.reason else "")


def not_serving(context: ApplyContext, raw: JsonObject) -> tuple[str, bool]:
    """Why the server does not serve, and whether it takes connections at all; an empty text = it does.

    Live says that it serves; ready would be false for one model of many, or while one loads.
    """
    status, body = request(context, raw, TRITON_PORT, "/v2/health/live")
    if not status:
        return f"port {TRITON_PORT} does not answer: {body.decode('utf-8', 'replace')}", False
    if status != 200:
        return f"/v2/health/live answers {status}", True
    metadata = mapping(_parsed(context, raw, "/v2"))
    return ("", True) if metadata.get("version") else ("the server does not tell its metadata", True)


def version(context: ApplyContext, raw: JsonObject) -> str:
    """The server's version; empty where it does not tell."""
    return str(mapping(_parsed(context, raw, "/v2")).get("version") or "")


def at_start(address: Address, context: ApplyContext) -> tuple[str, ...]:
    """The models that the server loads when it starts: each was loaded once."""
    repositories = mapping(mapping(context.look("repository").probe("repository").value).get("repositories"))
    return texts(mapping(repositories.get(address.name)).get("load_models"))


def models(wanted: Sequence[str], context: ApplyContext, raw: JsonObject) -> tuple[ModelState, ...]:
    """The state of each of these models; none where the server does not tell."""
    index = _parsed(context, raw, "/v2/repository/index", "POST")
    if not isinstance(index, list):
        return ()
    found: dict[str, list[JsonObject]] = {}
    for entry in mappings(index):
        found.setdefault(str(entry.get("name")), []).append(entry)
    return tuple(_state(name, found.get(name, [])) for name in wanted)


def requests(context: ApplyContext, raw: JsonObject) -> tuple[int, int] | None:
    """How many requests were answered so far, and how many wait; None where the server does not tell."""
    stats = mapping(_parsed(context, raw, "/v2/models/stats")).get("model_stats")
    if not isinstance(stats, list):
        return None
    answered = 0
    for model in mappings(stats):
        told = mapping(model.get("inference_stats"))
        answered += sum(whole(mapping(told.get(key)).get("count")) for key in ("success", "fail"))
    return answered, _waiting(context, raw)


def _waiting(context: ApplyContext, raw: JsonObject) -> int:
    """The sum of a gauge that a server may have switched off, or not have yet; the counters alone count then."""
    status, body = request(context, raw, _METRICS_PORT, "/metrics")
    if status != 200:
        return 0
    lines = (line.rpartition(" ") for line in body.decode("utf-8", "replace").splitlines() if line.startswith(_PENDING))
    return sum(int(float(value)) for _, _, value in lines if value.replace(".", "", 1).isdigit())


def _state(name: str, versions: Sequence[JsonObject]) -> ModelState:
    states = {str(each.get("state") or "") for each in versions}
    state = next((each for each in (*_MOVING, "READY") if each in states), "UNAVAILABLE")
    reasons = dict.fromkeys(" ".join(str(each.get("reason") or "").split()) for each in versions)
    reason = "; ".join(each for each in reasons if each and state == "UNAVAILABLE")
    if not versions:
        reason = "the server does not have it in its repository"
    return ModelState(name, state, reason[:_REASON])


def _parsed(context: ApplyContext, raw: JsonObject, path: str, verb: str = "GET") -> Json:
    status, body = request(context, raw, TRITON_PORT, path, verb)
    try:
        found: Json = json.loads(body) if status == 200 else None
    except ValueError:
        return None
    return found


QUIET = 1.0
"""Seconds without an answered request and without one that waits, after which none is taken to be in flight."""
_LOOK = 0.25


def drain(container: Live, seconds: float, address: Address, context: ApplyContext) -> None:
    """Wait until a model server has no request in flight, at most `seconds`; nothing for any other container.

    Triton cannot be told to take no more requests before it is told to stop, and then it finishes those that it has,
    within its --exit-timeout-secs. So this waits for a quiet moment, which there is once its clients have gone.
    """
    if not seconds or container.status != "running" or TRITON not in container.labels:
        return
    with explain_engine_errors(str(address), f"looking at {container.name}"):
        raw = mapping(context.docker().inspect_container(container.id))
    began = time.monotonic()
    before, since = None, began
    while time.monotonic() - began < seconds:
        if (found := requests(context, raw)) is None:
            return
        if found[1] or found[0] != before:
            before, since = found[0], time.monotonic()
        elif time.monotonic() - since >= QUIET:
            context.say(f"{container.name} has no request in flight")
            return
        time.sleep(_LOOK)
    context.say(f"{container.name} still gets requests after {seconds:g} s; it finishes those that it has, and stops")


def drain_previous(container: Live, seconds: float, address: Address, context: ApplyContext) -> None:
    """Let the clients of a container that was handed over end what they began with it."""
    if TRITON in container.labels:
        drain(container, seconds, address, context)
    elif seconds:
        context.say(f"{container.name} has {seconds:g} s to end what it began")
        time.sleep(seconds)
