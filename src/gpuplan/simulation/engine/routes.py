"""The engine: which request does what."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

from gpuplan.simulation.document import mapping, number, text
from gpuplan.simulation.engine import execution, images, lifecycle, system
from gpuplan.simulation.engine.create import NAME, claim, create
from gpuplan.simulation.engine.filters import containers as filtered_containers
from gpuplan.simulation.engine.filters import images as filtered_images
from gpuplan.simulation.engine.find import find_container
from gpuplan.simulation.engine.http import EngineError, Request, Response, answer, nothing, stream
from gpuplan.simulation.engine.inspect import inspect, listed
from gpuplan.simulation.engine.logs import logs
from gpuplan.simulation.machine import Machine
from gpuplan.simulation.state import NodeState
from gpuplan.simulation.store import Store

_VERSION = re.compile(r"^/v(\d+)\.(\d+)(/.*)$")
_TURN = 0.02
_SWAP = "Memory limit should be smaller than already set memoryswap limit, update the memoryswap at the same time"


@dataclass(frozen=True)
class Engine:
    """The Docker engine of one node. `closing` ends requests that wait for something to happen."""

    store: Store
    machine: Machine
    closing: threading.Event

    def answer(self, request: Request) -> Response:
        """The response to one request; errors are responses too."""
        try:
            return self._answer(request)
        except EngineError as error:
            return answer({"message": error.message}, error.status)

    def _answer(self, request: Request) -> Response:
        path = request.path
        if version := _VERSION.match(path):
            if (int(version[1]), int(version[2])) > (1, 41):
                asked = f"{version[1]}.{version[2]}"
                message = f"client version {asked} is too new. Maximum supported API version is {system.API}"
                raise EngineError(400, message)
            path = version[3]
        if lifecycle.due(self.store.read()):
            with self.store.write() as state:
                lifecycle.tick(state, self.machine)
        for method, pattern, handler in _ROUTES:
            if method == request.method and (found := pattern.fullmatch(path)):
                return handler(self, request, unquote(found[1]) if pattern.groups else "")
        raise EngineError(404, "page not found")


Handler = Callable[[Engine, Request, str], Response]


def _read(act: Callable[[NodeState, Request, str], object]) -> Handler:
    """A handler that reads the state and answers JSON."""
    return lambda engine, request, name: answer(act(engine.store.read(), request, name))


def _change(act: Callable[[Engine, NodeState, Request, str], Response]) -> Handler:
    """A handler that changes the state; what it raises undoes the change."""

    def handle(engine: Engine, request: Request, name: str) -> Response:
        with engine.store.write() as state:
            return act(engine, state, request, name)

    return handle


def _create(engine: Engine, state: NodeState, request: Request, _name: str) -> Response:
    container = create(state, engine.machine, request.query.get("name", ""), request.json())
    return answer({"Id": container.id, "Warnings": []}, 201)


def _start(engine: Engine, state: NodeState, _request: Request, name: str) -> Response:
    container = find_container(state, name)
    if container.running:
        return nothing(304)
    container.restarts = 0
    return _told(lifecycle.start(state, container, engine.machine))


def _stop(engine: Engine, state: NodeState, _request: Request, name: str) -> Response:
    container = find_container(state, name)
    if not container.running and container.status != "restarting":
        return nothing(304)
    lifecycle.stop(state, container, engine.machine)
    return nothing()


def _restart(engine: Engine, state: NodeState, _request: Request, name: str) -> Response:
    container = find_container(state, name)
    if container.running:
        lifecycle.stop(state, container, engine.machine)
    container.restarts = 0
    return _told(lifecycle.start(state, container, engine.machine))


def _told(refusal: str) -> Response:
    """A refused start is written into the container's state, and so it must not undo the change."""
    if not refusal:
        return nothing()
    status, _, message = refusal.partition(" ")
    return answer({"message": message}, int(status))


def _kill(_engine: Engine, state: NodeState, request: Request, name: str) -> Response:
    container = find_container(state, name)
    if not container.running:
        raise EngineError(409, f"Cannot kill container: {name}: Container {container.id} is not running")
    signal = request.query.get("signal", "SIGKILL").upper().removeprefix("SIG")
    if signal in ("KILL", "9"):
        lifecycle.end(state, container, 137, by_hand=True)
    elif signal in ("TERM", "15", "INT", "2", "QUIT", "3"):
        lifecycle.end(state, container, 0, by_hand=True)
    return nothing()


def _pause(status: str) -> Handler:
    def act(_engine: Engine, state: NodeState, _request: Request, name: str) -> Response:
        container = find_container(state, name)
        if not container.running:
            raise EngineError(409, f"Container {container.id} is not running")
        container.status = status
        return nothing()

    return _change(act)


def _rename(_engine: Engine, state: NodeState, request: Request, name: str) -> Response:
    container, wanted = find_container(state, name), request.query.get("name", "").removeprefix("/")
    if not NAME.match(wanted):
        raise EngineError(400, f"Invalid container name ({wanted}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed")
    if wanted == container.name:
        raise EngineError(400, "Renaming a container with the same name as its current name")
    claim(state, wanted, "Error when allocating new name: ")
    container.name = wanted
    return nothing()


def _remove(_engine: Engine, state: NodeState, request: Request, name: str) -> Response:
    container = find_container(state, name)
    if (container.running or container.status == "restarting") and not request.flag("force"):
        kind = "paused" if container.status == "paused" else container.status
        advice = "Unpause and then stop" if kind == "paused" else "Stop"
        raise EngineError(
            409,
            f"You cannot remove a {kind} container {container.id}. "
            f"{advice} the container before attempting removal or force remove",
        )
    lifecycle.remove(state, container)
    return nothing()


def _update(_engine: Engine, state: NodeState, request: Request, name: str) -> Response:
    container, stated = find_container(state, name), request.json()
    held, wanted = number(container.host_config["MemorySwap"]), number(stated.get("Memory"))
    if wanted > held >= 0 and not stated.get("MemorySwap"):
        raise EngineError(409, f"Cannot update container {container.id}: {_SWAP}")
    container.host_config.update({key: value for key, value in stated.items() if key != "RestartPolicy"})
    if policy := mapping(stated.get("RestartPolicy")):
        full = {"Name": text(policy.get("Name")), "MaximumRetryCount": number(policy.get("MaximumRetryCount"))}
        container.host_config["RestartPolicy"] = full
    return answer({"Warnings": None})


def _wait(engine: Engine, _request: Request, name: str) -> Response:
    """Answers when the container has ended."""
    identity = find_container(engine.store.read(), name).id
    while True:
        container = engine.store.read().containers.get(identity)
        if container is None:
            return answer({"Error": None, "StatusCode": 0})
        if not container.running and container.status != "restarting":
            return answer({"Error": None, "StatusCode": container.exit_code})
        if engine.closing.wait(_TURN):
            raise EngineError(500, "context canceled")
        if lifecycle.due(engine.store.read()):
            with engine.store.write() as state:
                lifecycle.tick(state, engine.machine)


def _pull(_engine: Engine, state: NodeState, request: Request, _name: str) -> Response:
    name, wanted = request.query.get("fromImage", ""), request.query.get("tag", "")
    if not name:
        raise EngineError(400, "repository name must have at least one component")
    separator = "@" if wanted.startswith("sha256:") else ":"
    return stream(images.pull(state, f"{name}{separator}{wanted}" if wanted else name))


def _load(_engine: Engine, state: NodeState, request: Request, _name: str) -> Response:
    return stream(images.load(state, request.body))


def _tag(_engine: Engine, state: NodeState, request: Request, name: str) -> Response:
    images.tag(state, name, request.query.get("repo", ""), request.query.get("tag", ""))
    return nothing(201)


def _remove_image(_engine: Engine, state: NodeState, request: Request, name: str) -> Response:
    return answer(images.remove(state, name, request.flag("force")))


def _exec_create(_engine: Engine, state: NodeState, request: Request, name: str) -> Response:
    return answer({"Id": execution.create(state, find_container(state, name), request.json()).id}, 201)


def _exec_start(_engine: Engine, state: NodeState, request: Request, name: str) -> Response:
    output = execution.start(state, execution.find(state, name))
    return nothing(200) if mapping(request.json()).get("Detach") else Response(frames=output)


def _stats(state: NodeState, _request: Request, name: str) -> object:
    container = find_container(state, name)
    return {"id": container.id, "name": f"/{container.name}", "cpu_stats": {}, "memory_stats": {}, "networks": {}}


def _of_engine(value: Callable[[Engine], object]) -> Handler:
    return lambda engine, _request, _name: answer(value(engine))


def _ping(_engine: Engine, request: Request, _name: str) -> Response:
    return Response(body=b"" if request.method == "HEAD" else b"OK", kind="text/plain; charset=utf-8")


def _list(state: NodeState, request: Request, _name: str) -> object:
    return [listed(state, one) for one in filtered_containers(state, request)]


def _inspect(state: NodeState, _request: Request, name: str) -> object:
    return inspect(state, find_container(state, name))


def _logs(engine: Engine, request: Request, name: str) -> Response:
    return logs(find_container(engine.store.read(), name), request)


def _exec_inspect(state: NodeState, _request: Request, name: str) -> object:
    return execution.inspect(execution.find(state, name))


def _images(state: NodeState, request: Request, _name: str) -> object:
    return [images.listed(one) for one in filtered_images(state, request)]


def _image(state: NodeState, _request: Request, name: str) -> object:
    return images.inspect(images.need(state, name))


_ROUTES: tuple[tuple[str, re.Pattern[str], Handler], ...] = tuple(
    (method, re.compile(pattern), handler)
    for method, pattern, handler in (
        ("GET", "/_ping", _ping),
        ("HEAD", "/_ping", _ping),
        ("GET", "/version", _of_engine(lambda _: system.version())),
        ("GET", "/info", _of_engine(lambda engine: system.info(engine.store.read(), engine.machine))),
        ("GET", "/containers/json", _read(_list)),
        ("POST", "/containers/create", _change(_create)),
        ("GET", "/containers/([^/]+)/json", _read(_inspect)),
        ("GET", "/containers/([^/]+)/logs", _logs),
        ("GET", "/containers/([^/]+)/stats", _read(_stats)),
        ("POST", "/containers/([^/]+)/start", _change(_start)),
        ("POST", "/containers/([^/]+)/stop", _change(_stop)),
        ("POST", "/containers/([^/]+)/restart", _change(_restart)),
        ("POST", "/containers/([^/]+)/kill", _change(_kill)),
        ("POST", "/containers/([^/]+)/pause", _pause("paused")),
        ("POST", "/containers/([^/]+)/unpause", _pause("running")),
        ("POST", "/containers/([^/]+)/rename", _change(_rename)),
        ("POST", "/containers/([^/]+)/update", _change(_update)),
        ("POST", "/containers/([^/]+)/wait", _wait),
        ("POST", "/containers/([^/]+)/exec", _change(_exec_create)),
        ("DELETE", "/containers/([^/]+)", _change(_remove)),
        ("POST", "/exec/([^/]+)/start", _change(_exec_start)),
        ("GET", "/exec/([^/]+)/json", _read(_exec_inspect)),
        ("GET", "/images/json", _read(_images)),
        ("POST", "/images/create", _change(_pull)),
        ("POST", "/images/load", _change(_load)),
        ("GET", "/images/(.+)/json", _read(_image)),
        ("POST", "/images/(.+)/tag", _change(_tag)),
        ("DELETE", "/images/(.+)", _change(_remove_image)),
    )
)
