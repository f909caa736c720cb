"""Serving: what a Triton says of its models and of the requests that it has, over its HTTP interface."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from gpuplan.resources.container.apply.inside import request
from gpuplan.resources.container.shape import TRITON_PORT
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.snapshot.raw import mapping, mappings, texts, whole
from gpuplan.types.address import Address
from gpuplan.types.value import Json, JsonObject

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
