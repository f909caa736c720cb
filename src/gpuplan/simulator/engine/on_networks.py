"""Requests about networks: the engine's own, and user-defined ones."""

from __future__ import annotations

import hashlib
import time

from gpuplan.simulator.document import mapping, text, texts
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
from gpuplan.simulator.engine.lookup import find_container, find_network, own_networks
from gpuplan.simulator.state import Document, Network, NodeState, stamp

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
