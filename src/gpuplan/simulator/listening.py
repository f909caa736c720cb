"""Who listens on the ports of a simulated node: the engine's proxies, servers on the node's own network, strangers."""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.simulator.engine.create import network_of
from gpuplan.simulator.state import Document, NodeState

_SSHD, _PROXY = 600, 700
"""Process ids of what every node has, and nobody looks at."""


def listening(state: NodeState) -> Iterator[Document]:
    """As the agent tells it of a real node."""
    for container in state.containers.values():
        for port in container.ports:
            protocol = port.inside.partition("/")[2]
            yield _told(protocol, port.host_ip, port.host_port, _PROXY, "docker-proxy", None)
        server = state.servers.get(container.id)
        if container.running and server is not None and network_of(container) == "host":
            yield _told("tcp", "0.0.0.0", server.http_port, container.pid, "tritonserver", container.id)  # noqa: S104 - told
    yield _told("tcp", "0.0.0.0", 22, _SSHD, "sshd", None)  # noqa: S104 - told, not bound
    for stranger in state.listeners:
        yield _told("tcp", stranger.address, stranger.port, stranger.pid, stranger.name, None)


def _told(protocol: str, address: str, port: int, pid: int, name: str, container: str | None) -> Document:
    return {"protocol": protocol, "address": address, "port": port, "pid": pid, "name": name, "container": container}
