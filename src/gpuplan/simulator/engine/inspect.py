"""How containers look from outside: inspect and list."""

from __future__ import annotations

from gpuplan.simulator.engine.create import argv, exposed
from gpuplan.simulator.engine.http import EngineError
from gpuplan.simulator.engine.lookup import find_network, image_by_id
from gpuplan.simulator.engine.networks import bridged
from gpuplan.simulator.state import Document, NodeState, SimulatedContainer, ago, mapping, stamp, texts

_GRAPH = "/var/lib/docker/overlay2"


def inspect(state: NodeState, container: SimulatedContainer) -> Document:
    """`GET /containers/ID/json`."""
    words = argv(container)
    files = f"/var/lib/docker/containers/{container.id}" if container.started else ""
    layers = f"{_GRAPH}/{container.id}"
    executions = [one.id for one in state.executions.values() if one.container == container.id and not one.started]
    return {
        "Id": container.id,
        "Created": stamp(container.created),
        "Path": words[0],
        "Args": words[1:],
        "State": _state(container),
        "Image": container.image,
        "ResolvConfPath": files and f"{files}/resolv.conf",
        "HostnamePath": files and f"{files}/hostname",
        "HostsPath": files and f"{files}/hosts",
        "LogPath": files and f"{files}/{container.id}-json.log",
        "Name": f"/{container.name}",
        "RestartCount": container.restarts,
        "Driver": "overlay2",
        "Platform": "linux",
        "MountLabel": "",
        "ProcessLabel": "",
        "AppArmorProfile": "",
        "ExecIDs": executions or None,
        "HostConfig": container.host_config,
        "GraphDriver": {
            "Data": {
                "LowerDir": f"{layers}-init/diff",
                "MergedDir": f"{layers}/merged",
                "UpperDir": f"{layers}/diff",
                "WorkDir": f"{layers}/work",
            },
            "Name": "overlay2",
        },
        "Mounts": container.mounts,
        "Config": container.config,
        "NetworkSettings": _network(state, container),
    }


def listed(state: NodeState, container: SimulatedContainer) -> Document:
    """One entry of `GET /containers/json`."""
    image = image_by_id(state, container.image)
    shown = str(container.config.get("Image"))
    return {
        "Id": container.id,
        "Names": [f"/{container.name}"],
        "Image": shown if image is None or image.tags else container.image,
        "ImageID": container.image,
        "Command": " ".join(f"'{word}'" if " " in word else word for word in argv(container)),
        "Created": int(container.created),
        "Ports": [
            {"IP": port.host_ip, "PrivatePort": _number(port.inside), "PublicPort": port.host_port,
             "Type": port.inside.partition("/")[2]}
            for port in container.ports
        ],
        "Labels": mapping(container.config.get("Labels")),
        "State": container.status,
        "Status": _status(container),
        "HostConfig": {"NetworkMode": container.host_config["NetworkMode"]},
        "NetworkSettings": {"Networks": _networks(state, container)},
        "Mounts": container.mounts,
    }  # fmt: skip


def _state(container: SimulatedContainer) -> Document:
    shown: Document = {
        "Status": container.status,
        "Running": container.running or container.status == "restarting",
        "Paused": container.status == "paused",
        "Restarting": container.status == "restarting",
        "OOMKilled": False,
        "Dead": False,
        "Pid": container.pid,
        "ExitCode": container.exit_code,
        "Error": container.error,
        "StartedAt": stamp(container.started),
        "FinishedAt": stamp(container.finished),
    }
    test = texts(mapping(container.config.get("Healthcheck")).get("Test"))
    if test and test != ["NONE"] and container.started:
        status = "healthy" if container.running else "unhealthy"
        shown["Health"] = {"Status": status, "FailingStreak": 0, "Log": []}
    return shown


def _status(container: SimulatedContainer) -> str:
    match container.status:
        case "running":
            return f"Up {ago(container.started)}"
        case "paused":
            return f"Up {ago(container.started)} (Paused)"
        case "restarting":
            return f"Restarting ({container.exit_code}) {ago(container.finished)} ago"
        case "exited":
            return f"Exited ({container.exit_code}) {ago(container.finished)} ago"
        case _:
            return "Created"


def _network(state: NodeState, container: SimulatedContainer) -> Document:
    bridge = mapping(_networks(state, container).get("bridge")) if container.running else {}
    sandbox = container.endpoint[::-1] or (container.id[::-1] if container.running else "")
    return {
        "Bridge": "",
        "SandboxID": sandbox,
        "HairpinMode": False,
        "LinkLocalIPv6Address": "",
        "LinkLocalIPv6PrefixLen": 0,
        "Ports": _ports(state, container),
        "SandboxKey": sandbox and f"/var/run/docker/netns/{sandbox[:12]}",
        "SecondaryIPAddresses": None,
        "SecondaryIPv6Addresses": None,
        "EndpointID": bridge.get("EndpointID", ""),
        "Gateway": bridge.get("Gateway", ""),
        "GlobalIPv6Address": "",
        "GlobalIPv6PrefixLen": 0,
        "IPAddress": bridge.get("IPAddress", ""),
        "IPPrefixLen": bridge.get("IPPrefixLen", 0),
        "IPv6Gateway": "",
        "MacAddress": bridge.get("MacAddress", ""),
        "Networks": _networks(state, container),
    }


def _networks(state: NodeState, container: SimulatedContainer) -> Document:
    return {name: _attached(state, container, name, aliases) for name, aliases in container.networks.items()}


def _attached(state: NodeState, container: SimulatedContainer, name: str, aliases: list[str]) -> Document:
    """One network of a container. On user-defined networks its short id and host name are aliases."""
    address = container.address
    number = address.split(".")[2:]
    own = dict.fromkeys((container.id[:12], str(container.config["Hostname"])))
    if name not in ("bridge", "host", "none"):
        aliases = [*aliases, *own]
    return {
        "IPAMConfig": None,
        "Links": None,
        "Aliases": aliases or None,
        "NetworkID": _network_id(state, name) if container.running else "",
        "EndpointID": container.endpoint,
        "Gateway": "172.17.0.1" if address else "",
        "IPAddress": address,
        "IPPrefixLen": 16 if address else 0,
        "IPv6Gateway": "",
        "GlobalIPv6Address": "",
        "GlobalIPv6PrefixLen": 0,
        "MacAddress": f"02:42:ac:11:{int(number[0]):02x}:{int(number[1]):02x}" if address else "",
        "DriverOpts": None,
    }


def _network_id(state: NodeState, name: str) -> str:
    try:
        return find_network(state, name).id
    except EngineError:
        return ""


def _ports(state: NodeState, container: SimulatedContainer) -> Document:
    if not container.running or not bridged(container):
        return {}
    shown: Document = {}
    for inside in exposed(container, image_by_id(state, container.image)):
        bound = [
            {"HostIp": port.host_ip, "HostPort": str(port.host_port)}
            for port in container.ports
            if port.inside == inside
        ]
        shown[inside] = bound or None
    return shown


def _number(inside: str) -> int:
    return int(inside.partition("/")[0])
