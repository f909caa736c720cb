"""The HTTP interface of the servers on a node: from an address and a request to a status and a body."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote

from gpuplan.simulator.engine.create import network_of
from gpuplan.simulator.state import NodeState, SimulatedContainer, SimulatedModel, SimulatedTriton, mapping
from gpuplan.simulator.store import Machine, StateStore
from gpuplan.simulator.triton.describe import model_metadata, server_metadata, statistics
from gpuplan.simulator.triton.infer import infer
from gpuplan.simulator.triton.load import LoadFailed, Serving, load, ready, settle, unload, unsettled
from gpuplan.simulator.triton.model_files import NeverAnswers
from gpuplan.simulator.triton.protocol import PATH as REGIONS
from gpuplan.simulator.triton.protocol import TritonAnswer, as_error, as_json, on_regions

_LOOPBACK = ("127.0.0.1", "localhost", "::1", "0.0.0.0")  # noqa: S104 - compared, not bound


@dataclass(frozen=True)
class Servers:
    """Everything that listens on the node's container ports."""

    store: StateStore
    machine: Machine

    def listener(self, host: str, port: int) -> str | None:
        """Id of the running container that listens there; None where a connection is refused."""
        match = _listener(self.store.read(), host, port)
        return match[0].id if match else None

    def answer(
        self, host: str, port: int, method: str, path: str, body: bytes, head: int | None = None
    ) -> TritonAnswer:
        """Answer one request; `head` is its Inference-Header-Content-Length.

        Raises:
            ConnectionRefusedError: nothing listens on the port.
            NeverAnswers: the server took the request and will not answer it.
        """
        match = _listener(self.store.read(), host, port)
        if match is None:
            raise ConnectionRefusedError(111, "Connection refused")
        container, inside = match
        server = self.store.read().servers.get(container.id)
        if server is None or inside != server.http_port:
            return TritonAnswer(200 if method in ("GET", "HEAD") else 405, b"")
        if unsettled(server):
            with self._serving(container.id) as serving:
                settle(serving.server)
        return self._answer(container.id, method, path.partition("?")[0], body, head)

    def _answer(self, container: str, method: str, path: str, body: bytes, head: int | None) -> TritonAnswer:
        for verb, pattern, act in _ASK:
            if match := pattern.fullmatch(path):
                if verb != method:
                    return as_error(405, "Method Not Allowed")
                state = self.store.read()
                serving = Serving(state, self.machine, state.containers[container], state.servers[container])
                return act(serving, unquote(match[1] or "") if pattern.groups else "", body)
        if match := _CONTROL.fullmatch(path):
            if method != "POST":
                return as_error(405, "Method Not Allowed")
            return self._control(container, unquote(match[1]), match[2], body)
        return self._inference(container, path, body, head)

    def _inference(self, container: str, path: str, body: bytes, head: int | None) -> TritonAnswer:
        with self._serving(container) as serving:
            if match := _INFER.fullmatch(path):
                return infer(serving, unquote(match[1]), match[2] or "", body, head)
            if match := REGIONS.fullmatch(path):
                return on_regions(serving, match[1], unquote(match[2] or ""), match[3], body)
        if re.fullmatch(r"/v2/models/.+/(generate|generate_stream)", path):
            return as_error(501, "a simulated server does not generate")
        return as_error(404, "Not Found")

    def _control(self, container: str, model: str, act: str, body: bytes) -> TritonAnswer:
        try:
            parameters = mapping(mapping(json.loads(body or b"{}")).get("parameters"))
        except ValueError as error:
            return as_error(500, f"failed to parse the request JSON buffer: {error}")
        if self.store.read().servers[container].mode != "explicit":
            return as_error(503, "explicit model load / unload is not allowed if polling is enabled")
        config = parameters.get("config", "")
        if not isinstance(config, str):
            return as_error(500, "attempt to access JSON non-string as string")
        hangs = False
        answer = TritonAnswer(200, b"")
        with self._serving(container) as serving:
            try:
                if act == "load":
                    load(serving, model, config)
                else:
                    unload(serving, model, parameters.get("unload_dependents") is True)
            except LoadFailed as failed:
                answer = as_error(failed.status, failed.text)
            except NeverAnswers:
                hangs = True
        if hangs:
            raise NeverAnswers
        return answer

    @contextmanager
    def _serving(self, container: str) -> Iterator[Serving]:
        with self.store.write() as state:
            yield Serving(state, self.machine, state.containers[container], state.servers[container])


def _listener(state: NodeState, host: str, port: int) -> tuple[SimulatedContainer, int] | None:
    """The container behind an address of the node, and the port inside it."""
    for container in state.containers.values():
        if container.status != "running":
            continue
        if host in _LOOPBACK:
            for published in container.ports:
                if published.host_port == port:
                    return container, int(published.inside.partition("/")[0])
            server = state.servers.get(container.id)
            if network_of(container) == "host" and (server is None or server.http_port == port):
                return container, port
        elif host == container.address:
            return container, port
    return None


def _ready(serving: Serving, _name: str, _body: bytes) -> TritonAnswer:
    return TritonAnswer(200 if _is_ready(serving.server) else 400, b"")


def _is_ready(server: SimulatedTriton) -> bool:
    """Strict readiness: false while a model loads or unloads, and after a load that failed."""
    if not server.strict_readiness:
        return True
    states = [
        list(served.versions.values()) for served in server.models.values() if served.versions or not served.steps
    ]
    return all(
        versions and all(one.state == "READY" or one.reason == "unloaded" for one in versions) for versions in states
    )


def _index(serving: Serving, _name: str, body: bytes) -> TritonAnswer:
    try:
        only = mapping(json.loads(body or b"{}")).get("ready", False)
    except ValueError as error:
        return as_error(500, f"failed to parse the request JSON buffer: {error}")
    if not isinstance(only, bool):
        return as_error(400, "attempt to access JSON non-boolean as boolean")
    entries: list[dict[str, str]] = []
    for name in sorted(serving.directories()):
        served = serving.server.models.get(name)
        if served is None or (served.steps and not served.versions):
            entries.extend([] if only else [{"name": name}])
            continue
        for number, version in sorted(served.versions.items(), key=lambda item: int(item[0])):
            if not only or version.state == "READY":
                entry = {"name": name, "version": number, "state": version.state}
                entries.append({**entry, "reason": version.reason} if version.reason else entry)
    return as_json(entries)


def _for_model(
    act: Callable[[str, SimulatedModel, list[str]], object],
) -> Callable[[Serving, str, bytes], TritonAnswer]:
    """An answer about a model that has a READY version, or Triton's 404."""

    def answer(serving: Serving, name: str, _body: bytes) -> TritonAnswer:
        served = serving.server.models.get(name)
        if served is None:
            return as_error(404, f"Request for unknown model: '{name}' is not found")
        versions = [number for number, version in served.versions.items() if version.state == "READY"]
        if not versions:
            return as_error(404, f"Request for unknown model: '{name}' has no available versions")
        return as_json(act(name, served, versions))

    return answer


def _model_ready(serving: Serving, name: str, _body: bytes) -> TritonAnswer:
    served = serving.server.models.get(name)
    return TritonAnswer(200, b"") if served and ready(served) else as_error(400, "Model version not ready")


def _statistics(serving: Serving, name: str, _body: bytes) -> TritonAnswer:
    models = serving.server.models
    if name and (name not in models or not ready(models[name])):
        return as_error(400, f"requested model '{name}' is not available")
    return as_json(
        {
            "model_stats": [
                statistics(one, number, version)
                for one, served in sorted(models.items())
                if not name or one == name
                for number, version in served.versions.items()
                if version.state == "READY"
            ]
        }
    )


def _live(_serving: Serving, _name: str, _body: bytes) -> TritonAnswer:
    return TritonAnswer(200, b"")


def _about(serving: Serving, _name: str, _body: bytes) -> TritonAnswer:
    return as_json(server_metadata(serving.server))


_MODEL = r"/v2/models/([^/]+)(?:/versions/\d+)?"
_INFER = re.compile(r"/v2/models/([^/]+)(?:/versions/(\d+))?/infer")
_CONTROL = re.compile(r"/v2/repository/models/([^/]+)/(load|unload)")
_ASK: tuple[tuple[str, re.Pattern[str], Callable[[Serving, str, bytes], TritonAnswer]], ...] = tuple(
    (method, re.compile(pattern), act)
    for method, pattern, act in (
        ("GET", r"/v2/health/live", _live),
        ("GET", r"/v2/health/ready", _ready),
        ("GET", r"/v2/?", _about),
        ("POST", r"/v2/repository/(?:[^/]+/)?index", _index),
        ("GET", r"/v2/models/stats", _statistics),
        ("GET", _MODEL + "/ready", _model_ready),
        ("GET", _MODEL + "/stats", _statistics),
        ("GET", _MODEL + "/config", _for_model(lambda _name, served, _versions: served.config)),
        ("GET", _MODEL, _for_model(model_metadata)),
    )
)
