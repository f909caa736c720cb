"""Triton while applying: its health, models and requests over HTTP from the node, and draining before a stop."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from gpuplan.resources.container.apply.engine import EngineContext
from gpuplan.resources.container.spec import TRITON_PORT
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.snapshot.containers import TRITON, EngineContainer
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Problem
from gpuplan.types.value import Json, JsonObject, integer, mapping, mappings, texts

TIMEOUT = 5.0
"""Seconds for a connection, and for an answer."""
QUIET = 1.0
"""Seconds without an answered or pending request after which none is taken to be in flight."""
_POLL = 0.25
_MAX_BODY = 4 << 20
_CLOSED_WITHIN = 0.25
"""Seconds within which a forwarded connection is closed if nothing listens behind it."""
_METRICS_PORT = 8002
_PENDING = "nv_inference_pending_request_count"
_MOVING = ("LOADING", "UNLOADING")
_REASON_LENGTH = 300


@dataclass(frozen=True)
class ModelState:
    """The state of one model of a server, with the server's reason."""

    name: str
    state: str
    reason: str = ""

    @property
    def moving(self) -> bool:
        """True while it may still become ready."""
        return self.state in _MOVING

    @property
    def failed(self) -> bool:
        """True if it will not become ready by itself."""
        return self.state != "READY" and not self.moving

    def __str__(self) -> str:
        return f"{self.name} is {self.state}" + (f": {self.reason}" if self.reason else "")


def why_not_live(context: ApplyContext, raw: JsonObject) -> tuple[str, bool]:
    """Why the server is not live (empty if it is), and whether it accepts connections. `raw` is its inspect data.

    /v2/health/ready would be false while one model of many loads or is broken.
    """
    status, body = request(context, raw, TRITON_PORT, "/v2/health/live")
    if not status:
        return f"port {TRITON_PORT} does not answer: {body.decode('utf-8', 'replace')}", False
    if status != 200:
        return f"/v2/health/live answers {status}", True
    return "" if version(context, raw) else "the server does not report its metadata", True


def version(context: ApplyContext, raw: JsonObject) -> str:
    """The server's version; empty if it does not report one."""
    return str(mapping(_get(context, raw, "/v2")).get("version") or "")


def models_at_start(address: Address, context: ApplyContext) -> tuple[str, ...]:
    """The models that the server loads when it starts; each was loaded successfully once."""
    repositories = mapping(mapping(context.look("repository").probe("repository").value).get("repositories"))
    return texts(mapping(repositories.get(address.name)).get("load_models"))


def model_states(names: Sequence[str], context: ApplyContext, raw: JsonObject) -> tuple[ModelState, ...]:
    """The state of each of these models; empty if the server does not report its index."""
    index = _get(context, raw, "/v2/repository/index", "POST")
    if not isinstance(index, list):
        return ()
    versions: dict[str, list[JsonObject]] = {}
    for entry in mappings(index):
        versions.setdefault(str(entry.get("name")), []).append(entry)
    return tuple(_model_state(name, versions.get(name, [])) for name in names)


def request_counts(context: ApplyContext, raw: JsonObject) -> tuple[int, int] | None:
    """How many requests the server has answered so far, and how many are pending; None if it does not report them."""
    stats = mapping(_get(context, raw, "/v2/models/stats")).get("model_stats")
    if not isinstance(stats, list):
        return None
    answered = 0
    for model in mappings(stats):
        inference = mapping(model.get("inference_stats"))
        answered += sum(integer(mapping(inference.get(key)).get("count")) for key in ("success", "fail"))
    return answered, _pending(context, raw)


def drain(container: EngineContainer, seconds: float, engine: EngineContext) -> None:
    """Wait until a model server has no request in flight, at most `seconds`; no-op for any other container.

    Triton cannot refuse new requests before it is stopped, and then it finishes those it has, within its
    --exit-timeout-secs. So this waits for a quiet moment, which comes when its clients are gone.
    """
    if not seconds or container.status != "running" or TRITON not in container.labels:
        return
    with engine.explain_errors(f"inspecting {container.name}"):
        raw = mapping(engine.docker.inspect_container(container.id))
    began = quiet_since = time.monotonic()
    answered_before = None
    while time.monotonic() - began < seconds:
        if (counts := request_counts(engine.apply, raw)) is None:
            return
        answered, pending = counts
        if pending or answered != answered_before:
            answered_before, quiet_since = answered, time.monotonic()
        elif time.monotonic() - quiet_since >= QUIET:
            engine.say(f"{container.name} has no request in flight")
            return
        time.sleep(_POLL)
    engine.say(f"{container.name} still receives requests after {seconds:g} s; it finishes those in flight and stops")


def drain_previous(container: EngineContainer, seconds: float, engine: EngineContext) -> None:
    """Give the clients of a replaced container time to finish."""
    if TRITON in container.labels:
        drain(container, seconds, engine)
    elif seconds:
        engine.say(f"waiting {seconds:g} s for the clients of {container.name} to finish")
        time.sleep(seconds)


def request(context: ApplyContext, raw: JsonObject, port: int, path: str, verb: str = "GET") -> tuple[int, bytes]:
    """Status and body of an HTTP request to a container, sent from its node; status 0 and why if there is no answer."""
    host, node_port = reachable(raw, port)
    try:
        with context.forward(node_port, host) as local:
            return _request(local, verb, path)
    except (ConnectionError, http.client.RemoteDisconnected):
        return 0, b"connection refused"
    except (OSError, http.client.HTTPException, Problem) as error:
        return 0, str(error).encode() or type(error).__name__.encode()


def why_not_listening(context: ApplyContext, raw: JsonObject, port: int) -> str:
    """Why a port of a container does not accept connections; empty if it does.

    A forwarded connection opens even if nothing listens behind it, and is then closed at once.
    """
    host, node_port = reachable(raw, port)
    try:
        with context.forward(node_port, host) as local:
            local_host, _, local_port = local.rpartition(":")
            with socket.create_connection((local_host, int(local_port)), timeout=TIMEOUT) as connection:
                connection.settimeout(_CLOSED_WITHIN)
                return "" if connection.recv(1) else f"nothing listens on port {port}"
    except TimeoutError:
        return ""
    except ConnectionError:
        return f"nothing listens on port {port}"
    except (OSError, Problem) as error:
        return f"port {port} does not answer: {error}"


def reachable(raw: JsonObject, port: int) -> tuple[str, int]:
    """Host and port by which the node reaches a container's port: as published, else the container's own address."""
    if mapping(raw.get("HostConfig")).get("NetworkMode") == "host":
        return "127.0.0.1", port
    settings = mapping(raw.get("NetworkSettings"))
    for binding in mappings(mapping(settings.get("Ports")).get(f"{port}/tcp")):
        host = str(binding.get("HostIp") or "")
        any_address = host in ("", "0.0.0.0", "::")  # noqa: S104 - as the engine reports a published port
        return ("127.0.0.1" if any_address else host), int(str(binding["HostPort"]))
    networks = mapping(settings.get("Networks")).values()
    addresses = (str(mapping(endpoint).get("IPAddress") or "") for endpoint in (settings, *networks))
    return next(filter(None, addresses), "127.0.0.1"), port


def _request(local: str, verb: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(local, timeout=TIMEOUT)
    try:
        connection.request(verb, path)
        answer = connection.getresponse()
        return answer.status, answer.read(_MAX_BODY)
    finally:
        connection.close()


def _pending(context: ApplyContext, raw: JsonObject) -> int:
    """The sum of the pending gauge; 0 if the server has no metrics, so that only the counters decide."""
    status, body = request(context, raw, _METRICS_PORT, "/metrics")
    if status != 200:
        return 0
    lines = (line.rpartition(" ") for line in body.decode("utf-8", "replace").splitlines() if line.startswith(_PENDING))
    return sum(int(float(value)) for _, _, value in lines if value.replace(".", "", 1).isdigit())


def _model_state(name: str, versions: Sequence[JsonObject]) -> ModelState:
    states = {str(version.get("state") or "") for version in versions}
    state = next((state for state in (*_MOVING, "READY") if state in states), "UNAVAILABLE")
    if not versions:
        return ModelState(name, state, "the model is not in the server's repository")
    reasons = dict.fromkeys(" ".join(str(version.get("reason") or "").split()) for version in versions)
    reason = "; ".join(filter(None, reasons)) if state == "UNAVAILABLE" else ""
    return ModelState(name, state, reason[:_REASON_LENGTH])


def _get(context: ApplyContext, raw: JsonObject, path: str, verb: str = "GET") -> Json:
    """The parsed answer; None if the status is not 200 or the body is not JSON."""
    status, body = request(context, raw, TRITON_PORT, path, verb)
    try:
        parsed: Json = json.loads(body) if status == 200 else None
    except ValueError:
        return None
    return parsed
