"""Addresses and published ports of running containers."""

from __future__ import annotations

import hashlib
import time

from gpuplan.simulator.engine.create import exposed, network_of
from gpuplan.simulator.engine.http import (
    Daemon,
    EngineError,
    EngineRequest,
    EngineResponse,
    Route,
    answer,
    changing,
    nothing,
    reading,
    route,
)
from gpuplan.simulator.engine.lookup import find_container, find_network, image_by_id, own_networks
from gpuplan.simulator.state import (
    Document,
    Network,
    NodeState,
    Port,
    SimulatedContainer,
    items,
    mapping,
    stamp,
    text,
    texts,
)

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


# Requests about networks: the engine's own, and user-defined ones.

_OWN = ("bridge", "host", "none")
_SUBNETS = [{"Subnet": "172.17.0.0/16"}]
_BRIDGE = {"com.docker.network.bridge.name": "docker0", "com.docker.network.driver.mtu": "1500"}


def _list(state: NodeState, _request: EngineRequest, _name: str) -> object:
    return [_shown(one) for one in (*state.networks, *own_networks(state))]


def _inspect(state: NodeState, _request: EngineRequest, name: str) -> object:
    return _shown(find_network(state, name))


def _create(_daemon: Daemon, state: NodeState, request: EngineRequest, _name: str) -> EngineResponse:
    body = request.json()
    name = text(body.get("Name"))
    if name in _OWN or (body.get("CheckDuplicate") and any(one.name == name for one in state.networks)):
        raise EngineError(409, f"network with name {name} already exists")
    identity = hashlib.sha256(f"{state.boot_id} network {state.count()}".encode()).hexdigest()
    labels = {key: str(value) for key, value in mapping(body.get("Labels")).items()}
    state.networks.append(Network(identity, name, text(body.get("Driver")) or "bridge", time.time(), labels))
    return answer({"Id": identity, "Warning": ""}, 201)


def _connect(_daemon: Daemon, state: NodeState, request: EngineRequest, name: str) -> EngineResponse:
    body = request.json()
    network, container = find_network(state, name), find_container(state, text(body.get("Container")))
    aliases = texts(mapping(body.get("EndpointConfig")).get("Aliases"))
    if network.name in container.networks:
        why = f"endpoint with name {container.name} already exists in network {network.name}"
        raise EngineError(403, why)
    if aliases and network.name in _OWN:
        raise EngineError(400, "network-scoped alias is supported only for containers in user defined networks")
    container.networks = {**container.networks, network.name: aliases}
    return nothing(200)


def _disconnect(_daemon: Daemon, state: NodeState, request: EngineRequest, name: str) -> EngineResponse:
    network, container = find_network(state, name), find_container(state, text(request.json().get("Container")))
    if network.name not in container.networks:
        raise EngineError(500, f"container {container.id} is not connected to network {network.name}")
    container.networks = {one: aliases for one, aliases in container.networks.items() if one != network.name}
    return nothing(200)


def _remove(_daemon: Daemon, state: NodeState, _request: EngineRequest, name: str) -> EngineResponse:
    network = find_network(state, name)
    if network.name in _OWN:
        raise EngineError(403, f"{network.name} is a pre-defined network and cannot be removed")
    if any(one.running and network.name in one.networks for one in state.containers.values()):
        raise EngineError(
            403, f"error while removing network: network {network.name} id {network.id} has active endpoints"
        )
    state.networks = [one for one in state.networks if one.id != network.id]
    return nothing()


def _shown(network: Network) -> Document:
    return {
        "Name": network.name,
        "Id": network.id,
        "Created": stamp(network.created),
        "Scope": "local",
        "Driver": network.driver,
        "EnableIPv6": False,
        "IPAM": {"Driver": "default", "Options": None, "Config": _SUBNETS if network.driver == "bridge" else []},
        "Internal": False,
        "Attachable": False,
        "Ingress": False,
        "ConfigFrom": {"Network": ""},
        "ConfigOnly": False,
        "Containers": {},
        "Options": _BRIDGE if network.name == "bridge" else {},
        "Labels": network.labels,
    }


_ONE = "/networks/([^/]+)"
ROUTES: tuple[Route, ...] = (
    route("GET", "/networks", reading(_list)),
    route("POST", "/networks/create", changing(_create)),
    route("GET", _ONE, reading(_inspect)),
    route("DELETE", _ONE, changing(_remove)),
    route("POST", f"{_ONE}/connect", changing(_connect)),
    route("POST", f"{_ONE}/disconnect", changing(_disconnect)),
)
