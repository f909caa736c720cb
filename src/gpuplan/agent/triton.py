"""The triton probe: what each model server on the node says of itself, asked side by side."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from .docker import LONGEST_MESSAGE, containers
from .failure import Failure, Job, run_all
from .world import World

LABEL = "gpuplan.triton"
PATIENCE = 5.0
"""Seconds for one answer of a server."""
DEADLINE = 15.0
"""Seconds for all answers of one server; within the probe's own deadline, so that a hung server is reported by name."""
RUNS_TRITON = re.compile(r"(?:^|[\s/])tritonserver(?:\s|$)")
HTTP_PORT = re.compile(r"--http-port[= ](\d+)")
THEIRS = "/repository"
"""Where a server of ours sees a directory of the node that it serves models from."""
LISTING = 5.0
"""Seconds to list such a directory, which may lie on another machine."""


def probe(world: World) -> dict[str, object]:
    """The value of the probe `triton`."""
    servers = [each for each in containers(world, "/containers/json") if _is_triton(each)]
    served = {each["Id"]: source for each in servers for source in _sources(each)}
    jobs: dict[str, Job] = {each["Id"]: functools.partial(_server, world, address(each)) for each in servers}
    listings: dict[str, Job] = {
        "folders of " + key: functools.partial(world.folders, path) for key, path in served.items()
    }
    deadlines = {**dict.fromkeys(jobs, DEADLINE), **dict.fromkeys(listings, LISTING)}
    answers = run_all({**jobs, **listings}, deadlines)
    listed = {key: {"path": path, **_listed(answers["folders of " + key])} for key, path in served.items()}
    return {"servers": [_entry(each, answers[each["Id"]], listed.get(each["Id"])) for each in servers]}


def address(container: Mapping[str, Any]) -> str:
    """Where the server answers: its published port, or the container's own address where none is published."""
    port = _port(container)
    if container["HostConfig"].get("NetworkMode") == "host":
        return "127.0.0.1:{}".format(port)
    network = container["NetworkSettings"]
    for published in (network.get("Ports") or {}).get("{}/tcp".format(port)) or ():
        return "{}:{}".format(_reachable(published.get("HostIp", "")), published["HostPort"])
    addresses = [each.get("IPAddress") for each in (network.get("Networks") or {}).values()]
    return "{}:{}".format(next(filter(None, addresses), network.get("IPAddress") or "127.0.0.1"), port)


def _is_triton(container: Mapping[str, Any]) -> bool:
    return LABEL in (container["Config"].get("Labels") or {}) or RUNS_TRITON.search(_command(container)) is not None


def _command(container: Mapping[str, Any]) -> str:
    return " ".join([container.get("Path") or "", *(container.get("Args") or ())])


def _port(container: Mapping[str, Any]) -> str:
    labelled = (container["Config"].get("Labels") or {}).get(LABEL) or ""
    if labelled.isdigit():
        return str(labelled)
    stated = HTTP_PORT.search(_command(container))
    return stated.group(1) if stated else "8000"


def _reachable(host: str) -> str:
    """An address to connect to, for one to bind to."""
    if host in ("", "0.0.0.0"):  # noqa: S104 - read from the engine, not bound
        return "127.0.0.1"
    if host == "::":
        return "[::1]"
    return "[{}]".format(host) if ":" in host else host


def _sources(container: Mapping[str, Any]) -> list[str]:
    """The directory of the node that the server serves, where there is one."""
    if LABEL not in (container["Config"].get("Labels") or {}):
        return []
    return [each["Source"] for each in container.get("Mounts") or () if each.get("Destination") == THEIRS]


def _listed(answer: Mapping[str, Any]) -> dict[str, object]:
    return {"error": answer["error"]} if "error" in answer else {"models": answer["value"]}


def _entry(container: Mapping[str, Any], answer: Mapping[str, Any], listed: object) -> dict[str, object]:
    head = {"container": container["Id"], "name": container["Name"].lstrip("/"), "address": address(container)}
    if listed is not None:
        head["repository"] = listed
    return {**head, "error": answer["error"]} if "error" in answer else {**head, **answer["value"]}


def _server(world: World, where: str) -> dict[str, object]:
    live = _ask(world, where, "GET", "/v2/health/live")[0]
    ready = _ask(world, where, "GET", "/v2/health/ready")[0]
    index = _json(world, where, "POST", "/v2/repository/index")
    return {
        "live": live == 200,
        "ready": ready == 200,
        "metadata": _json(world, where, "GET", "/v2"),
        "index": index,
        "configs": _configs(world, where, index),
        "statistics": _json(world, where, "GET", "/v2/models/stats"),
    }


def _configs(world: World, where: str, index: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """The config of each model with a READY version; one that is unloaded meanwhile has none."""
    configs: dict[str, object] = {}
    for name in sorted({entry["name"] for entry in index if entry.get("state") == "READY"}):
        status, body = _ask(world, where, "GET", "/v2/models/{}/config".format(quote(name, safe="")))
        if status == 200:
            configs[name] = json.loads(body)
    return configs


def _json(world: World, where: str, method: str, path: str) -> Any:
    status, body = _ask(world, where, method, path)
    if status != 200:
        said = body.decode(errors="replace").strip()[:LONGEST_MESSAGE]
        raise Failure("unexpected", "{} {}: {} {}".format(method, path, status, said))
    return json.loads(body)


def _ask(world: World, where: str, method: str, path: str) -> tuple[int, bytes]:
    body = b"{}" if method == "POST" else None
    try:
        return world.triton(where, method, path, body, PATIENCE)
    except OSError as error:
        raise Failure("unreachable", "{} does not answer: {}".format(where, error)) from error
