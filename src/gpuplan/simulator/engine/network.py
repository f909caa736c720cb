"""Addresses and published ports of running containers."""

from __future__ import annotations

import hashlib

from gpuplan.simulator.document import items, mapping, text
from gpuplan.simulator.engine.create import exposed, network_of
from gpuplan.simulator.engine.http import EngineError
from gpuplan.simulator.engine.lookup import find_network, image_by_id
from gpuplan.simulator.state import NodeState, Port, SimulatedContainer

_FIRST_EPHEMERAL = 32768
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - reported, not bound
_ANY = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


def bridged(container: SimulatedContainer) -> bool:
    """True where the container has an address of its own, and ports are published."""
    network = network_of(container)
    return network not in ("host", "none") and not network.startswith("container:")


def connect(state: NodeState, container: SimulatedContainer) -> None:
    """Give the container its address and ports.

    Raises:
        EngineError: the network is not there, or a port is taken, in the words of Docker Engine 20.10.
    """
    for name in container.networks:
        find_network(state, name)
    if not bridged(container):
        return
    endpoint = hashlib.sha256(f"{container.id} endpoint {state.count()}".encode()).hexdigest()
    wanted = _wanted(state, container)
    taken = [port for one in state.containers.values() if one.running for port in one.ports]
    for port in wanted:
        if any(_clash(port, other) for other in taken):
            raise EngineError(
                500,
                f"driver failed programming external connectivity on endpoint {container.name} ({endpoint}): "
                f"Bind for {port.host_ip}:{port.host_port} failed: port is already allocated",
            )
    container.ports, container.endpoint = wanted, endpoint
    used = {one.address for one in state.containers.values() if one.running}
    container.address = next(
        address for number in range(2, 65000) if (address := f"172.17.{number >> 8}.{number & 255}") not in used
    )


def disconnect(container: SimulatedContainer) -> None:
    """Take the address and ports back."""
    container.ports, container.address, container.endpoint = [], "", ""


def _wanted(state: NodeState, container: SimulatedContainer) -> list[Port]:
    bindings = mapping(container.host_config.get("PortBindings"))
    inside = [(port, items(bindings[port])) for port in bindings]
    if container.host_config.get("PublishAllPorts"):
        inside += [
            (port, [{}]) for port in exposed(container, image_by_id(state, container.image)) if port not in bindings
        ]
    wanted: list[Port] = []
    for port, stated in inside:
        for one in map(mapping, stated):
            number = text(one.get("HostPort")) or str(_free_port(state, wanted))
            address = text(one.get("HostIp"))
            wanted.extend(Port(port, side, int(number)) for side in ([address] if address else _EVERYWHERE))
    return wanted


def _free_port(state: NodeState, wanted: list[Port]) -> int:
    taken = {port.host_port for one in state.containers.values() if one.running for port in one.ports}
    taken |= {port.host_port for port in wanted}
    return next(number for number in range(_FIRST_EPHEMERAL, 65536) if number not in taken)


def _clash(port: Port, other: Port) -> bool:
    same_protocol = port.inside.partition("/")[2] == other.inside.partition("/")[2]
    same_address = port.host_ip == other.host_ip or port.host_ip in _ANY or other.host_ip in _ANY
    return same_protocol and same_address and port.host_port == other.host_port
