"""The docker probe: version, info, containers, images and networks, each as the engine says it."""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any

from .failure import Failure
from .world import World

LONGEST_MESSAGE = 2000
"""Characters that are told of what was said in the place of an answer."""


class Absent(Failure):
    """The engine knows no such thing; from a list, that is a failure like any other."""


def probe(world: World) -> dict[str, object]:
    """The value of the probe `docker`."""
    return {
        "version": get(world, "/version"),
        "info": get(world, "/info"),
        "containers": containers(world, "/containers/json?all=1"),
        "images": _inspected(world, "/images/{}/json", _ids(get(world, "/images/json"))),
        "networks": get(world, "/networks"),
    }


def containers(world: World, listing: str) -> list[Any]:
    """Raw inspect of each container that the engine lists at this path."""
    return _inspected(world, "/containers/{}/json", _ids(get(world, listing)))


def get(world: World, path: str) -> Any:
    """One answer of the engine.

    Raises Failure with no_docker, docker_refused, no_permission, too_large or docker_error; Absent where it says that
    there is no such thing.
    """
    try:
        status, body = world.engine("GET", path)
    except FileNotFoundError as error:
        raise Failure("no_docker", "there is no engine socket: {}".format(error)) from error
    except (ConnectionError, socket.timeout) as error:
        raise Failure("docker_refused", "the engine does not answer: {}".format(error)) from error
    if status >= 400:
        kind = Absent if status == 404 else Failure
        raise kind("docker_error", "GET {}: {} {}".format(path, status, _message(body)))
    return json.loads(body)


def _ids(listed: Any) -> list[str]:
    return [each["Id"] for each in listed or ()]


def _inspected(world: World, path: str, ids: list[str]) -> list[Any]:
    """Inspect each; what went away since it was listed is not there."""
    found = []
    for each in ids:
        with contextlib.suppress(Absent):
            found.append(get(world, path.format(each)))
    return found


def _message(body: bytes) -> str:
    try:
        said = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        said = body.decode(errors="replace").strip()
    return said[:LONGEST_MESSAGE]
