"""Inside: asks what listens on a port inside a container, from its node."""

from __future__ import annotations

import http.client
import socket

from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.snapshot.raw import mapping, mappings
from gpuplan.types.diagnostic import Problem
from gpuplan.types.value import JsonObject

PATIENCE = 5.0
"""Seconds for a connection, and for an answer."""
_LARGEST = 4 << 20
_LISTENS = 0.25
"""Seconds after which a connection that was not closed has somebody at its other end."""


def request(context: ApplyContext, raw: JsonObject, port: int, path: str, verb: str = "GET") -> tuple[int, bytes]:
    """Status and body of the answer; status 0, and why, where nobody answers. `raw` is the container's inspect data."""
    host, outer = reachable(raw, port)
    try:
        with context.forward(outer, host) as local:
            return _ask(local, verb, path)
    except (ConnectionError, http.client.RemoteDisconnected):
        return 0, b"nobody listens there"
    except (OSError, http.client.HTTPException, Problem) as fault:
        return 0, str(fault).encode() or type(fault).__name__.encode()


def listens(context: ApplyContext, raw: JsonObject, port: int) -> str:
    """Why nobody takes connections there; empty = somebody does.

    A forwarded connection opens even when nobody listens behind it, and is then closed at once.
    """
    host, outer = reachable(raw, port)
    try:
        with context.forward(outer, host) as local:
            name, _, number = local.rpartition(":")
            with socket.create_connection((name, int(number)), timeout=PATIENCE) as opened:
                opened.settimeout(_LISTENS)
                return "" if opened.recv(1) else f"nobody listens on port {port}"
    except TimeoutError:
        return ""
    except ConnectionError:
        return f"nobody listens on port {port}"
    except (OSError, Problem) as fault:
        return f"port {port} does not answer: {fault}"


def reachable(raw: JsonObject, port: int) -> tuple[str, int]:
    """Where a port of a container is reached from its node: as published, else at the container's own address."""
    if mapping(raw.get("HostConfig")).get("NetworkMode") == "host":
        return "127.0.0.1", port
    network = mapping(raw.get("NetworkSettings"))
    for side in mappings(mapping(network.get("Ports")).get(f"{port}/tcp")):
        address = str(side.get("HostIp") or "")
        anywhere = address in ("", "0.0.0.0", "::")  # noqa: S104 - what the engine says of a published port
        return ("127.0.0.1" if anywhere else address), int(str(side["HostPort"]))
    inside = str(network.get("IPAddress") or "")
    networks = mapping(network.get("Networks")).values()
    own = (str(mapping(each).get("IPAddress") or "") for each in networks)
    return inside or next((address for address in own if address), "127.0.0.1"), port


def _ask(local: str, verb: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(local, timeout=PATIENCE)
    try:
        connection.request(verb, path)
        answer = connection.getresponse()
        return answer.status, answer.read(_LARGEST)
    finally:
        connection.close()
