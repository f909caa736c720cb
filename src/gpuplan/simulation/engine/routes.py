"""The engine: which request does what."""

from __future__ import annotations

import re
from urllib.parse import unquote

from gpuplan.simulation.engine import lifecycle, on_containers, on_images, on_networks, system
from gpuplan.simulation.engine.daemon import Daemon, Route, route
from gpuplan.simulation.engine.http import EngineError, Request, Response, answer

_VERSION = re.compile(r"^/v(\d+)\.(\d+)(/.*)$")


class Engine(Daemon):
    """The Docker engine of one node."""

    def answer(self, request: Request) -> Response:
        """The response to one request; errors are responses too."""
        try:
            return self._answer(request)
        except EngineError as error:
            return answer({"message": error.message}, error.status)

    def _answer(self, request: Request) -> Response:
        path = _checked(request.path)
        if lifecycle.due(self.store.read()):
            with self.store.write() as state:
                lifecycle.tick(state, self.machine)
        for method, pattern, handler in _ROUTES:
            if method == request.method and (found := pattern.fullmatch(path)):
                return handler(self, request, unquote(found[1]) if pattern.groups else "")
        raise EngineError(404, "page not found")


def _checked(path: str) -> str:
    """The path without its version, which may not be newer than the engine."""
    version = _VERSION.match(path)
    if version is None:
        return path
    if (int(version[1]), int(version[2])) > (1, 41):
        asked = f"{version[1]}.{version[2]}"
        message = f"client version {asked} is too new. Maximum supported API version is {system.API}"
        raise EngineError(400, message)
    return version[3]


def _ping(_daemon: Daemon, request: Request, _name: str) -> Response:
    return Response(body=b"" if request.method == "HEAD" else b"OK", kind="text/plain; charset=utf-8")


def _about(_daemon: Daemon, _request: Request, _name: str) -> Response:
    return answer(system.version())


def _info(daemon: Daemon, _request: Request, _name: str) -> Response:
    return answer(system.info(daemon.store.read(), daemon.machine))


_ROUTES: tuple[Route, ...] = (
    route("GET", "/_ping", _ping),
    route("HEAD", "/_ping", _ping),
    route("GET", "/version", _about),
    route("GET", "/info", _info),
    *on_containers.ROUTES,
    *on_images.ROUTES,
    *on_networks.ROUTES,
)
