"""Conflicts: what on the node prevents a container from being started, and the unmanaged containers of the node."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set

from gpuplan.resources.container.fields.conversion import newer_fields, observed_fields
from gpuplan.resources.container.fields.networking import clashes, host_ports, host_side
from gpuplan.resources.container.read import DeviceMemory, Listener, ObservedContainers
from gpuplan.resources.container.resolve import DesiredContainer, NodeDiff, all_devices, usable_devices
from gpuplan.resources.snapshot.containers import EngineContainer
from gpuplan.resources.snapshot.devices import requested_devices
from gpuplan.types.address import Address
from gpuplan.types.change import Unmanaged
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.value import texts

_PORT_PROXIES = ("docker-proxy", "rootlessport", "rootlesskit", "slirp4netns", "pasta", "conmon")
"""Processes that hold a port for a container, which is reported itself."""
_BUILT_IN_NETWORKS = ("host", "none", "bridge", "default")


def unmanaged_containers(
    node: NodeDiff, matching: Mapping[str, Set[Address]], reported: Set[str]
) -> Iterator[Unmanaged]:
    """All containers that this plan file did not create, each with the plan file's GPUs that it can use.

    `matching` are those that are as the plan file states, by id, with the devices that it gives them; `reported` are
    the ids of those that a change or an unknown reports.
    """
    observed, context = node.observed, node.context
    for live in observed.containers:
        if live.plan == context.plan or live.id in reported:
            continue
        given = matching.get(live.id)
        sees = tuple(address for address in _visible_gpus(live, node) if address not in (given or ()))
        what = _description(live, observed) if given is None else _matching_description(live)
        yield Unmanaged(Address(observed.node, "container", live.name), what, sees=sees, as_wanted=given is not None)


def names_taken(observed: ObservedContainers, plan: str, creating: Sequence[DesiredContainer]) -> Iterator[Diagnostic]:
    """Containers of others with the name of one that is to be created or renamed."""
    holders = {live.name: live for live in observed.containers if live.plan != plan}
    for desired in creating:
        holder = holders.get(desired.address.name)
        if holder is not None and holder.id != desired.adopts:
            name, node = holder.name, desired.address.node
            yield desired.issue(
                "Container name already in use",
                f"A container named {name} already exists on {node} ({holder.image}, {holder.status}, "
                f"{_owner(holder)}).",
                f"Choose another name in the plan file, or rename it on {node}:\n"
                f"    docker rename {shlex.quote(name)} {shlex.quote(f'{name}-before')}",
            )


def ports_taken(
    observed: ObservedContainers, own: Set[str], starting: Sequence[DesiredContainer]
) -> Iterator[Diagnostic]:
    """Host ports that other containers hold, or that other processes listen on; `own` are ids that do not count."""
    others = [live for live in observed.containers if live.id not in own and live.busy]
    listeners = [
        listener
        for listener in observed.listeners
        if listener.name not in _PORT_PROXIES and listener.container not in own
    ]
    for desired in starting:
        ports = list(host_ports(desired.spec.ports))
        for live in others:
            held = list(held_ports(live))
            if taken := [port for port in ports if any(clashes(port, other) for other in held)]:
                yield _held_by_container(desired, live, taken)
        for port in ports:
            listener = next((other for other in listeners if clashes(port, _listening_port(other))), None)
            if listener is not None:
                yield desired.issue(
                    "Host port already in use",
                    f"{listener.description} listens on {port} of {observed.node}, which {desired.address.name} "
                    "publishes.",
                    "Publish another port, or stop that process.",
                )


def networks_missing(observed: ObservedContainers, creating: Sequence[DesiredContainer]) -> Iterator[Diagnostic]:
    """Networks of containers that are not on the node."""
    if not observed.networks:
        return
    known = {*observed.networks, *observed.networks.values(), *_BUILT_IN_NETWORKS}
    for desired in creating:
        spec = desired.spec
        for name in (*spec.networks, *([spec.network] if spec.network else [])):
            if name not in known:
                existing = sorted(set(observed.networks.values()) - set(_BUILT_IN_NETWORKS))
                has = f"has {', '.join(existing)}" if existing else "has only its built-in ones"
                yield desired.issue(
                    "Network not found",
                    f"{desired.address.name} needs the network {name}, but the engine on {observed.node} {has}.",
                    f"Create it on the node first:\n    docker network create {name}",
                )


def beyond_the_node(observed: ObservedContainers, starting: Sequence[DesiredContainer]) -> Iterator[Diagnostic]:
    """More CPUs than the node has, which the engine refuses; more memory, which it accepts; fields it does not know."""
    engine, node = observed.engine, observed.node
    for desired in starting:
        spec, name = desired.spec, desired.address.name
        if engine.cpus and spec.cpus is not None and spec.cpus > engine.cpus:
            detail = f"cpus of {name} is {spec.cpus:g}, but {node} has {engine.cpus} CPUs."
            yield desired.issue("More CPUs than the node has", detail, f"Set cpus to {engine.cpus} or less.")
        for key, api in newer_fields(spec, engine.api):
            detail = f"{key} of {name} needs Docker API {api}, but the engine on {node} supports only {engine.api}."
            yield desired.issue(
                "Docker engine is too old for a field", detail, f"Upgrade Docker on {node}, or remove {key}."
            )
        for key, size in (("memory", spec.memory), ("shm_size", spec.shm_size)):
            if engine.memory and size is not None and size > engine.memory:
                detail = f"{key} of {name} is {_gib(size)}, but {node} has {_gib(engine.memory)} of main memory."
                fix = f"Lower {key}: a limit that is never reached has no effect."
                yield desired.issue("More memory than the node has", detail, fix, Severity.WARNING)


def devices_in_use(
    observed: ObservedContainers, own: Set[str], starting: Sequence[DesiredContainer]
) -> Iterator[Diagnostic]:
    """GPUs and slices on which other processes compute, or that another container was given by name."""
    for desired in starting:
        for device, uuid in desired.resolved.devices.items():
            if users := _device_users(str(uuid), observed, own):
                yield desired.issue(
                    "A GPU of the container is in use",
                    f"{device.name} ({uuid}) on {observed.node} is used by {', '.join(users)}.",
                    f"{desired.address.name} will share it and its memory with them. Stop them, or give it another "
                    "GPU.",
                    Severity.WARNING,
                )


def memory_for_two_missing(desired: DesiredContainer, node: NodeDiff) -> Iterator[Diagnostic]:
    """GPUs on which the new container of a start-first replacement does not fit next to the old one."""
    uuids = {str(uuid) for uuid in desired.resolved.devices.values()}
    name = desired.address.name
    for live in node.observed.containers:
        if live.id == desired.adopts or (live.plan, live.role) == (node.context.plan, name):
            for why in why_no_room(live.id, uuids, node.observed.memory):
                yield desired.issue(
                    "Two containers do not fit on a GPU",
                    f"With update: start-first the new {name} runs next to the old one for a while, but {why}.",
                    f"Set update: stop-first for {name}, or free GPU memory on {desired.address.node}.",
                )


def why_no_room(container: str, uuids: Collection[str], memory: Mapping[str, DeviceMemory]) -> Iterator[str]:
    """Why a second container like this one cannot run next to it, for each device on which it cannot."""
    for uuid in sorted(uuids):
        device = memory.get(uuid)
        if device is None:
            continue
        used = device.held.get(container, 0)
        if device.exclusive and used:
            yield f"{uuid} is in compute mode exclusive_process, which allows one process only"
        elif used > device.free:
            yield f"the old one uses {_gib(used)} of {uuid}, and only {_gib(device.free)} are free"


def held_ports(live: EngineContainer) -> Iterable[str]:
    """The host ports that a container holds while it runs."""
    published = {
        path.removeprefix("ports."): texts(sides)
        for path, sides in observed_fields(live).items()
        if path.startswith("ports.")
    }
    return host_ports(published)


def _visible_gpus(live: EngineContainer, node: NodeDiff) -> tuple[Address, ...]:
    """The GPUs and slices of the plan file that a running container can use."""
    if not live.busy:
        return ()
    devices = usable_devices(live, node.observed) & all_devices(node.observed)
    return tuple(sorted(address for address, uuid in node.context.bindings.items() if uuid in devices))


def _held_by_container(desired: DesiredContainer, holder: EngineContainer, taken: Sequence[str]) -> Diagnostic:
    name, node = holder.name, desired.address.node
    return desired.issue(
        "Host port already in use",
        f"The container {name} on {node} ({holder.image}, {_owner(holder)}) holds {', '.join(taken)}, which "
        f"{desired.address.name} publishes.",
        f"Publish another port, or stop it on {node}:\n    docker stop {shlex.quote(name)}",
    )


def _device_users(uuid: str, observed: ObservedContainers, own: Set[str]) -> Sequence[str]:
    names = {live.id: live.name for live in observed.containers}
    users: dict[str, None] = {}
    for live in observed.containers:
        devices = requested_devices(live.config, live.host_config, observed.default_runtime, observed.gpus)
        if live.busy and live.id not in own and uuid in devices and devices < all_devices(observed):
            users[f"container {live.name}"] = None
    for process in observed.processes:
        if process.device == uuid and process.container not in own:
            name = names.get(process.container)
            users[f"container {name}" if name else f"the process {process.name} (pid {process.pid})"] = None
    return tuple(users)


def _owner(live: EngineContainer) -> str:
    return f"managed by the plan file {live.plan}" if live.plan else "unmanaged"


def _matching_description(live: EngineContainer) -> str:
    return (
        f"container {live.name} ({live.image}) is as the plan file states, but gpuplan did not create it and leaves it "
        "alone (adopt: true replaces it with a managed one)"
    )


def _description(live: EngineContainer, observed: ObservedContainers) -> str:
    owner = f"{_owner(live)}, " if live.plan else ""
    privileged = "privileged, " if live.host_config.get("Privileged") is True else ""
    devices = usable_devices(live, observed)
    if devices and ("all" in devices or devices >= all_devices(observed)):
        gpus = f", {privileged}can use every GPU of the node"
    else:
        gpus = f", uses {', '.join(sorted(devices))}" if devices else ""
    return f"container {live.name} ({owner}{live.image}, {live.status}{gpus})"


def _listening_port(listener: Listener) -> str:
    address = "" if listener.address == "::" else listener.address
    return f"{host_side(address, str(listener.port))}/{listener.protocol}"


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
