"""Requests about images."""

from __future__ import annotations

from gpuplan.simulator.engine import images
from gpuplan.simulator.engine.daemon import Daemon, Route, changing, reading, route
from gpuplan.simulator.engine.filters import images as filtered
from gpuplan.simulator.engine.http import EngineError, Request, Response, answer, nothing, stream
from gpuplan.simulator.engine.release import release_of
from gpuplan.simulator.state import NodeState


def _pull(_daemon: Daemon, state: NodeState, request: Request, _name: str) -> Response:
    name, wanted = request.query.get("fromImage", ""), request.query.get("tag", "")
    if not name:
        raise EngineError(400, "repository name must have at least one component")
    separator = "@" if wanted.startswith("sha256:") else ":"
    return stream(images.pull(state, f"{name}{separator}{wanted}" if wanted else name))


def _load(_daemon: Daemon, state: NodeState, request: Request, _name: str) -> Response:
    return stream(images.load(state, request.body))


def _tag(_daemon: Daemon, state: NodeState, request: Request, name: str) -> Response:
    images.tag(state, name, request.query.get("repo", ""), request.query.get("tag", ""))
    return nothing(201)


def _remove_image(_daemon: Daemon, state: NodeState, request: Request, name: str) -> Response:
    return answer(images.remove(state, name, request.flag("force")))


def _images(state: NodeState, request: Request, _name: str) -> object:
    return [images.listed(one) for one in filtered(state, request)]


def _image(state: NodeState, request: Request, name: str) -> object:
    return images.inspect(images.need(state, name), release_of(state.hardware).asked(request.path))


ROUTES: tuple[Route, ...] = (
    route("GET", "/images/json", reading(_images)),
    route("POST", "/images/create", changing(_pull)),
    route("POST", "/images/load", changing(_load)),
    route("GET", "/images/(.+)/json", reading(_image)),
    route("POST", "/images/(.+)/tag", changing(_tag)),
    route("DELETE", "/images/(.+)", changing(_remove_image)),
)
