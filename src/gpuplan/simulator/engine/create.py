"""Creating a container: what the engine checks, and what it writes down."""

from __future__ import annotations

import hashlib
import re
import time

from gpuplan.simulator.engine.defaults import config, host_config
from gpuplan.simulator.engine.http import EngineError
from gpuplan.simulator.engine.lookup import find_image, own_networks
from gpuplan.simulator.state import (
    Document,
    NodeState,
    SimulatedContainer,
    SimulatedImage,
    items,
    mapping,
    number,
    text,
    texts,
)
from gpuplan.simulator.store import Machine

NAME = re.compile(r"^/?[a-zA-Z0-9][a-zA-Z0-9_.-]+$")
_RUNTIMES = ("runc", "io.containerd.runc.v2", "io.containerd.runtime.v1.linux")
_POLICIES = ("", "no", "always", "unless-stopped", "on-failure")
CPUS = 64
"""Processors of every simulated node."""
_LEAST_MEMORY = 6 * 1024 * 1024
_CAPABILITIES = frozenset(
    """ALL AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND BPF CHECKPOINT_RESTORE CHOWN DAC_OVERRIDE DAC_READ_SEARCH
    FOWNER FSETID IPC_LOCK IPC_OWNER KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE MKNOD NET_ADMIN NET_BIND_SERVICE
    NET_BROADCAST NET_RAW PERFMON SETFCAP SETGID SETPCAP SETUID SYSLOG SYS_ADMIN SYS_BOOT SYS_CHROOT SYS_MODULE SYS_NICE
    SYS_PACCT SYS_PTRACE SYS_RAWIO SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG WAKE_ALARM""".split()  # noqa: SIM905 - to read
)


def create(state: NodeState, machine: Machine, name: str, body: Document) -> SimulatedContainer:
    """The new container, which does not run yet.

    Raises:
        EngineError: the request is refused, in the words of Docker Engine 20.10.
    """
    if not body:
        raise EngineError(400, "Config cannot be empty in order to create a container")
    if name and not NAME.match(name):
        raise EngineError(400, f"Invalid container name ({name}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed")
    stated = mapping(body.get("HostConfig"))
    _check(stated, machine)
    image = find_image(state, text(body.get("Image")))
    if image is None:
        raise EngineError(404, f"No such image: {text(body.get('Image'))}")
    identity = hashlib.sha256(f"{state.boot_id} {machine.name} container {state.count()}".encode()).hexdigest()
    chosen = name.removeprefix("/") or f"quiet_{identity[:8]}"
    claim(state, chosen)
    host = host_config(stated)
    container = SimulatedContainer(
        id=identity,
        name=chosen,
        created=time.time(),
        image=image.id,
        config=config(body, image, identity, machine.name, host),
        host_config=host,
    )
    if not items([container.config["Entrypoint"], container.config["Cmd"]]) or not argv(container):
        raise EngineError(400, "No command specified")
    container.mounts = _mounts(container, identity)
    container.networks = _networks(state, body, container)
    state.containers[identity] = container
    return container


def argv(container: SimulatedContainer) -> list[str]:
    """Entrypoint and command together."""
    return texts(container.config.get("Entrypoint")) + texts(container.config.get("Cmd"))


def network_of(container: SimulatedContainer) -> str:
    """Name of the network it is on."""
    mode = text(container.host_config.get("NetworkMode"))
    return "bridge" if mode in ("default", "") else mode


def claim(state: NodeState, name: str, prefix: str = "") -> None:
    """Refuse a name that another container has."""
    for other in state.containers.values():
        if other.name == name:
            raise EngineError(
                409,
                f'{prefix}Conflict. The container name "/{name}" is already in use by container "{other.id}". '
                "You have to remove (or rename) that container to be able to reuse that name.",
            )


def exposed(container: SimulatedContainer, image: SimulatedImage | None) -> list[str]:
    """Ports inside the container that are exposed or published, such as ``8000/tcp``."""
    bound = mapping(container.host_config.get("PortBindings"))
    declared = mapping(container.config.get("ExposedPorts"))
    shared = mapping(image.config.get("ExposedPorts")) if image else {}
    return sorted({*bound, *declared, *shared}, key=lambda port: (int(port.partition("/")[0]), port))


def check_resources(stated: Document) -> None:
    """Refuse limits that the engine refuses at creation and at an update (moby, daemon_unix.go).

    Raises:
        EngineError: in the words of Docker Engine 20.10.
    """
    memory, swap, reserved = (number(stated.get(key)) for key in ("Memory", "MemorySwap", "MemoryReservation"))
    if 0 < memory < _LEAST_MEMORY:
        raise EngineError(400, "Minimum memory limit allowed is 6MB")
    if 0 < swap < memory:
        raise EngineError(400, "Minimum memoryswap limit should be larger than memory limit, see usage")
    if 0 < reserved < _LEAST_MEMORY:
        raise EngineError(400, "Minimum memory reservation allowed is 6MB")
    if 0 < memory < reserved:
        raise EngineError(400, "Minimum memory limit can not be less than memory reservation limit, see usage")
    if (cpus := number(stated.get("NanoCpus")) / 1e9) and not 0.01 <= cpus <= CPUS:
        most = f"{CPUS:.2f}, as there are only {CPUS} CPUs available"
        raise EngineError(400, f"Range of CPUs is from 0.01 to {most}")
    cpuset = text(stated.get("CpusetCpus"))
    if any(int(cpu) >= CPUS for cpu in re.findall(r"\d+", cpuset)):
        raise EngineError(400, f"Requested CPUs are not available - requested {cpuset}, available: 0-{CPUS - 1}")
    if (weight := number(stated.get("BlkioWeight"))) and not 10 <= weight <= 1000:
        raise EngineError(400, "Range of blkio weight is from 10 to 1000")


def _check(stated: Document, machine: Machine) -> None:
    policy = text(mapping(stated.get("RestartPolicy")).get("Name"))
    if policy not in _POLICIES:
        raise EngineError(400, f"invalid restart policy '{policy}'")
    runtime = text(stated.get("Runtime"))
    if runtime and runtime not in _RUNTIMES:
        raise EngineError(400, f"Unknown runtime specified {runtime}")
    check_resources(stated)
    if number(stated.get("MemorySwap")) > 0 and not number(stated.get("Memory")):
        raise EngineError(400, "You should always set the Memory limit when using Memoryswap limit, see usage")
    for kind in ("CapAdd", "CapDrop"):
        for capability in texts(stated.get(kind)):
            if capability.upper().removeprefix("CAP_") not in _CAPABILITIES:
                full = f"CAP_{capability.upper().removeprefix('CAP_')}"
                raise EngineError(400, f'invalid {kind}: unknown capability: "{full}"')
    for mount in map(mapping, items(stated.get("Mounts"))):
        source = text(mount.get("Source"))
        real = machine.file(source)
        if mount.get("Type") == "bind" and (real is None or not real.exists()):
            raise EngineError(400, f'invalid mount config for type "bind": bind source path does not exist: {source}')


def _networks(state: NodeState, body: Document, container: SimulatedContainer) -> dict[str, list[str]]:
    """The network that the request names; the engine looks for it only when the container starts."""
    stated = mapping(mapping(body.get("NetworkingConfig")).get("EndpointsConfig"))
    if len(stated) > 1:
        names = ", ".join(sorted(stated))
        raise EngineError(400, f"Container cannot be connected to network endpoints: {names}")
    network = network_of(container)
    if network.startswith("container:"):
        return {}
    aliases = texts(mapping(stated.get(network)).get("Aliases"))
    if aliases and network in ("bridge", "host", "none"):
        raise EngineError(400, "network-scoped alias is supported only for containers in user defined networks")
    known = {one.id: one.name for one in (*own_networks(state), *state.networks)}
    return {known.get(network, network): aliases}


def _mounts(container: SimulatedContainer, identity: str) -> list[Document]:
    found = [_bind(one) for one in texts(container.host_config.get("Binds"))]
    found.extend(_mount(mapping(one)) for one in items(container.host_config.get("Mounts")))
    taken = {text(mount["Destination"]) for mount in found}
    anonymous = sorted(mapping(container.config.get("Volumes")).keys() - taken)
    return found + [_volume(hashlib.sha256(f"{identity} {path}".encode()).hexdigest(), path, "") for path in anonymous]


def _bind(written: str) -> Document:
    source, _, rest = written.partition(":")
    destination, _, mode = rest.partition(":")
    if not source.startswith("/"):
        return _volume(source, destination, mode or "z")
    return {
        "Type": "bind",
        "Source": source,
        "Destination": destination,
        "Mode": mode,
        "RW": "ro" not in mode.split(","),
        "Propagation": "rprivate",
    }


def _mount(stated: Document) -> Document:
    source, destination = text(stated.get("Source")), text(stated.get("Target"))
    if stated.get("Type") == "volume":
        return _volume(source, destination, "z")
    return {
        "Type": text(stated.get("Type")),
        "Source": source,
        "Destination": destination,
        "Mode": "",
        "RW": not stated.get("ReadOnly"),
        "Propagation": "rprivate",
    }


def _volume(name: str, destination: str, mode: str) -> Document:
    return {
        "Type": "volume",
        "Name": name,
        "Source": f"/var/lib/docker/volumes/{name}/_data",
        "Destination": destination,
        "Driver": "local",
        "Mode": mode,
        "RW": "ro" not in mode.split(","),
        "Propagation": "",
    }
