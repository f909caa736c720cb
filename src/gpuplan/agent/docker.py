"""The docker probe: version, info, containers, images and networks, each as the engine says it."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from .failure import Failure
from .world import World

SPOKEN = (1, 44)
"""The newest version of the engine's API whose answers are known here: Docker 25's, which those to 29 still speak."""
LONGEST_MESSAGE = 2000
"""Characters of an unexpected answer that are reported."""


class NoSuchObject(Failure):
    """The engine knows no such thing; from a list, that is a failure like any other."""


def probe(world: World) -> dict[str, object]:
    """The value of the probe `docker`."""
    version = get(world, "/version")
    api = api_prefix(version)
    return {
        "version": version,
        "info": get(world, api + "/info"),
        "containers": _listed(world, api, "/containers/json?all=1"),
        "images": _inspected(world, api + "/images/{}/json", _ids(get(world, api + "/images/json"))),
        "networks": get(world, api + "/networks"),
    }


def containers(world: World, listing: str) -> list[Any]:
    """Raw inspect of each container that the engine lists at this path."""
    return _listed(world, api_prefix(get(world, "/version")), listing)


def api_prefix(version: Any) -> str:
    """The beginning of a path that asks in the newest API version whose answers are known, where the engine has it.

    Without one an engine answers in its own newest version, in which fields may be gone.
    """
    newest, oldest = (_number(version.get(key)) for key in ("ApiVersion", "MinAPIVersion"))
    return "/v{}.{}".format(*max(min(newest, SPOKEN), oldest)) if newest else ""


def get(world: World, path: str) -> Any:
    """One answer of the engine.

    Raises Failure with no_docker, docker_refused, no_permission, too_large or docker_error; Absent if it says that
    there is no such thing.
    """
    try:
        status, body = world.engine("GET", path)
    except FileNotFoundError as error:
        raise Failure("no_docker", "no engine socket: {}".format(error)) from error
    except (ConnectionError, socket.timeout) as error:
        raise Failure("docker_refused", "the engine does not answer: {}".format(error)) from error
    if status >= 400:
        kind = NoSuchObject if status == 404 else Failure
        raise kind("docker_error", "GET {}: {} {}".format(path, status, _message(body)))
    return json.loads(body)


def _listed(world: World, api: str, listing: str) -> list[Any]:
    return _inspected(world, api + "/containers/{}/json", _ids(get(world, api + listing)))


def _number(version: Any) -> tuple[int, ...]:
    parts = str(version or "").split(".")
    return tuple(int(part) for part in parts) if len(parts) == 2 and all(part.isdigit() for part in parts) else ()


def _ids(listed: Any) -> list[str]:
    return [each["Id"] for each in listed or ()]


def _inspected(world: World, path: str, ids: list[str]) -> list[Any]:
    """Inspect each; what went away since it was listed is not there."""
    found = []
    for each in ids:
        with contextlib.suppress(NoSuchObject):
            found.append(get(world, path.format(each)))
    return found


def _message(body: bytes) -> str:
    try:
        said = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        said = body.decode(errors="replace").strip()
    return said[:LONGEST_MESSAGE]


# The access probe: whether the containers of a plan file may still open the GPU device files that they were given.

LABEL = "gpuplan.plan"
"""Says which plan file made a container."""


def probe_access(world: World, plan: str) -> dict[str, object]:
    """The value of the probe `access`: the plan's running containers that have GPUs; the others are not asked."""
    if not plan:
        return {"containers": {}}
    listing = "/containers/json?filters=" + quote(json.dumps({"label": ["{}={}".format(LABEL, plan)]}))
    running = {each["Id"]: each["State"]["Pid"] for each in containers(world, listing) if has_gpus(each)}
    return {"containers": world.device_access(running) if running else {}}


def has_gpus(container: Mapping[str, Any]) -> bool:
    """True for a running container that may have been given GPUs, in whatever way; a paused one tells nothing."""
    if container["State"].get("Status") != "running" or not container["State"].get("Pid"):
        return False
    host = container["HostConfig"]
    devices = [str(each.get("PathOnHost") or "") for each in host.get("Devices") or ()]
    asked = host.get("DeviceRequests") or [each for each in devices if "nvidia" in each]
    return bool(asked) or str(host.get("Runtime") or "").startswith("nvidia")
