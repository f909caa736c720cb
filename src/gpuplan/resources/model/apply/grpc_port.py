"""Where a model server's gRPC answers, read off its container."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpuplan.resources.snapshot.raw import mapping, mappings, texts
from gpuplan.types.value import JsonObject

if TYPE_CHECKING:
    import docker

PORT = re.compile(r"--grpc-port[= ](\d+)")


def grpc_address(engine: docker.APIClient, container: str) -> str | None:
    """`host:port` as the node reaches it: its published port, else the container's own address; None without either."""
    raw: JsonObject = mapping(engine.inspect_container(container))
    command = " ".join((str(raw.get("Path") or ""), *texts(raw.get("Args"))))
    stated = PORT.search(command)
    port = stated[1] if stated else "8001"
    if mapping(raw.get("HostConfig")).get("NetworkMode") == "host":
        return f"127.0.0.1:{port}"
    network = mapping(raw.get("NetworkSettings"))
    for published in mappings(mapping(network.get("Ports")).get(f"{port}/tcp")):
        host = str(published.get("HostIp") or "")
        near = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - read, not bound
        return f"{near}:{published['HostPort']}"
    for each in mapping(network.get("Networks")).values():
        if own := mapping(each).get("IPAddress"):
            return f"{own}:{port}"
    return None
