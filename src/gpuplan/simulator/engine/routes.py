"""The engine: which request does what."""

from __future__ import annotations

from urllib.parse import unquote

from gpuplan.simulator.engine import lifecycle, on_containers, on_images, on_networks, system
from gpuplan.simulator.engine.daemon import Daemon, Route, route
from gpuplan.simulator.engine.http import EngineError, Request, Response, answer
from gpuplan.simulator.engine.release import release_of


class Engine(Daemon):
    """The Docker engine of one node."""

    def answer(self, request: Request) -> Response:
        """The response to one request; errors are responses too."""
        try:
            return self._answer(request)
        except EngineError as error:
            return answer({"message": error.message}, error.status)

    def _answer(self, request: Request) -> Response:
        path = release_of(self.store.read().hardware).plain(request.path)
        if lifecycle.due(self.store.read()):
            with self.store.write() as state:
                lifecycle.tick(state, self.machine)
        for method, pattern, handler in _ROUTES:
            if method == request.method and (found := pattern.fullmatch(path)):
                return handler(self, request, unquote(found[1]) if pattern.groups else "")
        raise EngineError(404, "page not found")


def _ping(_daemon: Daemon, request: Request, _name: str) -> Response:
    return Response(body=b"" if request.method == "HEAD" else b"OK", kind="text/plain; charset=utf-8")


def _about(daemon: Daemon, _request: Request, _name: str) -> Response:
    return answer(system.version(release_of(daemon.store.read().hardware)))


def _info(daemon: Daemon, request: Request, _name: str) -> Response:
    state = daemon.store.read()
    return answer(system.info(state, daemon.machine, release_of(state.hardware).asked(request.path)))


_ROUTES: tuple[Route, ...] = (
    route("GET", "/_ping", _ping),
    route("HEAD", "/_ping", _ping),
    route("GET", "/version", _about),
    route("GET", "/info", _info),
    *on_containers.ROUTES,
    *on_images.ROUTES,
    *on_networks.ROUTES,
)
