"""Fields of a container's network: the networks it is on, published ports, name resolution."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Any

from pydantic import Field as Stating
from pydantic import StringConstraints

from gpuplan.planfile.scalars import Natural, Port, Section
from gpuplan.resources.container.fields.field import Parts, Reading, Text, TextMap
from gpuplan.resources.snapshot.containers import EngineContainer
from gpuplan.types.value import Json, mapping, mappings, texts

NetworkName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
"""Name or id of a network, as the engine takes them."""
SERVER_PORTS = {"http": "8000/tcp", "grpc": "8001/tcp", "metrics": "8002/tcp"}
"""Ports of a model server inside its container."""
_EVERY_ADDRESS = ("", "0.0.0.0")  # noqa: S104 - read from a node or a plan file, where both mean all addresses
_NOT_ATTACHED = ("host", "none")
_GATEWAY = "host-gateway"


class ServerPorts(Section):
    """Host ports of a model server; `step` is added for each further container of an `each`."""

    http: Port | None = None
    grpc: Port | None = None
    metrics: Port | None = None
    step: Natural = 0


class Attachment(Section):
    """How a container is on one of its networks."""

    aliases: tuple[str, ...] = Stating(default=(), description="further names for it on this network")


@dataclass(frozen=True)
class Network(Text):
    """The network that a container is created on; one that is stated by its id is compared by its name."""

    def parts(self, value: Any) -> Parts:
        return {"": network_name(value)}

    def read(self, live: EngineContainer, networks: Mapping[str, str]) -> Parts:
        return {"": primary_network(live, networks)}


@dataclass(frozen=True)
class Networks(TextMap):
    """Network → further names for the container on it; the first is the one that it is created on."""

    def parse(self, stated: Any, reading: Reading) -> Any:
        if isinstance(stated, tuple):
            value: dict[str, tuple[str, ...]] = dict.fromkeys(stated, ())
        else:
            value = {name: tuple(sorted(set(attachment.aliases))) for name, attachment in stated.items()}
        if stated and reading.container.network is not None:
            reading.problem("Both network and networks are stated", "Only one of them can be.", "Keep one of them.")
        for name in {"host", "none", "default"} & value.keys():
            detail = f"A container cannot be attached to {name}."
            reading.problem("Not a network", detail, f"Write network: {name} instead.")
        if value.get("bridge"):
            detail = "The engine supports aliases only on user-defined networks."
            reading.problem("Aliases on the network bridge", detail, "Remove the aliases, or use another network.")
        return value

    def parts(self, value: Any) -> Parts:
        return {name: list(aliases) for name, aliases in value.items()}

    def send(self, value: Any) -> Mapping[str, Json]:
        """The first network alone: an engine before API 1.44 refuses several, so they are attached after creation."""
        first = next(iter(value))
        endpoint: Json = {"Aliases": list(value[first])} if value[first] else {}
        return {"HostConfig.NetworkMode": first, "NetworkingConfig": {"EndpointsConfig": {first: endpoint}}}

    def read(self, live: EngineContainer, networks: Mapping[str, str]) -> Parts:
        found: dict[str, Json] = {}
        for name, raw in live.networks.items():
            if name not in _NOT_ATTACHED:
                aliases = set(texts(mapping(raw).get("Aliases"))) - own_names(live)
                found[network_name(networks.get(name, name))] = sorted(aliases)
        return found

    def write(self, parts: Parts) -> Json:
        return {name: {"aliases": aliases} if aliases else {} for name, aliases in parts.items()}

    def show(self, key: str, value: Json) -> Json:
        return f"attached as {', '.join(texts(value))}" if value else "attached"


@dataclass(frozen=True)
class Ports(TextMap):
    """Port inside (``8000/tcp``) → host sides: ``8000``, ``127.0.0.1:8000``, or an empty text for any free port."""

    def parse(self, stated: Any, reading: Reading) -> Any:
        if reading.container.network == "host" and stated:
            detail = "A container on the node's own network publishes nothing."
            reading.problem("Ports with network: host", detail, "Remove ports.")
        if isinstance(stated, ServerPorts):
            sides = {inside: getattr(stated, name) for name, inside in SERVER_PORTS.items()}
            return {inside: (str(port),) for inside, port in sides.items() if port is not None}
        try:
            return ports_of(stated)
        except ValueError as error:
            reading.problem("Port is not valid", f"{error}.", 'Write "8080:80", "127.0.0.1:8080:80/udp" or 80.')
            return {}

    def parts(self, value: Any) -> Parts:
        return {inside: list(sides) for inside, sides in value.items()}

    def send(self, value: Any) -> Mapping[str, Json]:
        bindings: Json = {inside: [_binding(side) for side in sides] for inside, sides in value.items()}
        return {self.engine: bindings, "Config.ExposedPorts": {inside: {} for inside in value}}

    def read(self, live: EngineContainer, networks: Mapping[str, str]) -> Parts:
        """If every port is published, those that are exposed have any free one."""
        host = live.host_config
        exposed = mapping(live.config.get("ExposedPorts")) if host.get("PublishAllPorts") is True else {}
        found: dict[str, Json] = {inside: [""] for inside in exposed}
        for inside, bindings in mapping(host.get("PortBindings")).items():
            sides = {
                host_side(str(one.get("HostIp") or ""), str(one.get("HostPort") or "")) for one in mappings(bindings)
            }
            if sides:
                found[inside if "/" in inside else f"{inside}/tcp"] = sorted(sides)
        return found

    def write(self, parts: Parts) -> Json:
        return [_port_text(inside, side) for inside, sides in parts.items() for side in texts(sides)] or None

    def show(self, key: str, value: Json) -> Json:
        sides = ", ".join(texts(value))
        return int(sides) if sides.isdigit() else sides or "any free port"


@dataclass(frozen=True)
class Hosts(TextMap):
    """Host name → address."""

    def encode(self, value: Any) -> Json:
        return [f"{name}:{address}" for name, address in value.items()]

    def decode(self, raw: Json) -> Parts:
        lines = (line.partition("=" if "=" in line else ":") for line in texts(raw))
        return {name: address for name, _, address in lines}


def check_network(value: str, reading: Reading) -> None:
    """Not another container's: it breaks when that one is replaced."""
    if value.startswith("container:"):
        detail = f"network: {value} ties it to one container, and breaks when that one is replaced."
        fix = "Use a named network, or host."
        reading.problem("Networks of other containers are not supported", detail, fix)


def check_servers(value: tuple[str, ...], reading: Reading) -> None:
    """Name servers are addresses."""
    for text in value:
        if not is_address(text):
            reading.problem("Name server is not an address", f"{text!r} is not an IP address.", "Write its address.")


def check_hosts(value: Mapping[str, str], reading: Reading) -> None:
    """Host names are names, and their addresses addresses."""
    for name, address in value.items():
        if re.search(r"[\s:=]", name):
            detail = f"{name!r} is not a host name."
            reading.problem("Host name is not valid", detail, "Write NAME: ADDRESS.", below=name)
        if address != _GATEWAY and not is_address(address):
            detail, fix = f"{address!r} of {name} is not an IP address.", f"Write its address, or {_GATEWAY}."
            reading.problem("Host address is not valid", detail, fix, below=name)


def address_text(text: str) -> str:
    """An address in its shortest form."""
    return str(ip_address(text)) if is_address(text) else text


def is_address(text: str) -> bool:
    """True for an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def network_name(mode: str) -> str:
    """The network of a container that states none is called bridge."""
    return "bridge" if mode in ("", "default") else mode


def primary_network(live: EngineContainer, networks: Mapping[str, str]) -> str:
    """The network that a container was created on; `networks` are the names of the node's networks by id."""
    mode = str(live.host_config.get("NetworkMode") or "")
    return network_name(networks.get(mode, mode))


def own_names(live: EngineContainer) -> frozenset[str]:
    """Names on every network that no plan file states: gpuplan's own, and the short id and host name.

    The engine gives the last two by itself (moby, daemon/container_operations.go).
    """
    return frozenset((live.role, live.id[:12], str(live.config.get("Hostname") or "")))


def ports_of(forms: Iterable[str | int]) -> Mapping[str, tuple[str, ...]]:
    """``127.0.0.1:8080:80/udp`` → {``80/udp``: (``127.0.0.1:8080``,)}; a form may be a range.

    Raises:
        ValueError: a form is none of Docker's.
    """
    from docker.utils.ports import build_port_bindings

    ports: dict[str, tuple[str, ...]] = {}
    for inside, sides in build_port_bindings([str(form) for form in forms]).items():
        port, _, protocol = inside.partition("/")
        key = f"{_checked(port)}/{protocol or 'tcp'}"
        ports[key] = tuple(sorted({*ports.get(key, ()), *(_side(side) for side in sides)}))
    return ports


def host_side(address: str, port: str) -> str:
    """The normal text of one host side; ``0.0.0.0`` is what Docker takes if no address is given."""
    shown = "" if port in ("", "0") else port
    with suppress(ValueError):
        address, shown = str(ip_address(address)) if address else "", str(int(shown)) if shown else ""
    if address in _EVERY_ADDRESS:
        return shown
    return f"[{address}]:{shown}" if ":" in address else f"{address}:{shown}"


def split_side(side: str) -> tuple[str, str]:
    """Address and port of a normal host side; empty for any."""
    address, _, port = side.rpartition(":")
    return address.strip("[]"), port


def host_ports(ports: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """``8000/tcp``, or ``127.0.0.1:8000/tcp``, for each host side with a port of its own."""
    for inside, sides in ports.items():
        for side in sides:
            if split_side(side)[1]:
                yield f"{side}/{inside.partition('/')[2]}"


def clashes(one: str, other: str) -> bool:
    """True if two host ports cannot both be taken: the same port and protocol, on overlapping addresses."""
    (side, _, protocol), (other_side, _, other_protocol) = one.partition("/"), other.partition("/")
    (address, port), (other_address, other_port) = split_side(side), split_side(other_side)
    if (port, protocol) != (other_port, other_protocol):
        return False
    return not address or not other_address or address == other_address or "::" in (address, other_address)


def _side(side: object) -> str:
    if side is None:
        return ""
    if isinstance(side, tuple):
        address, port = side
        return host_side(str(ip_address(address)), _checked(port) if port else "")
    return host_side("", _checked(str(side)))


def _checked(port: str) -> str:
    if not 1 <= int(port) <= 65535:
        raise ValueError(f"{port} is not a port")
    return str(int(port))


def _binding(side: str) -> Json:
    address, port = split_side(side)
    return {"HostIp": address, "HostPort": port}


def _port_text(inside: str, side: str) -> str:
    """Docker's form of one published port."""
    port, _, protocol = inside.partition("/")
    end = port if protocol == "tcp" else inside
    address, outside = split_side(side)
    host = f"[{address}]" if ":" in address else address
    return f"{host}:{outside}:{end}" if host else f"{outside}:{end}" if outside else end
