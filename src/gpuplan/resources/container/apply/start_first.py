"""Start-first replacement (`update: start-first`): the new container starts while the old one keeps serving.

Clients reach such a container by its name on a network of its own. When the new one is ready it gets that name as a
network alias, and then the old one loses it, so that the name always resolves to a container that serves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuplan.resources.container.apply.engine import EngineContext
from gpuplan.resources.container.apply.gpu_access import current_devices
from gpuplan.resources.container.apply.lifecycle import (
    ContainerContext,
    create,
    current_container,
    keep_failed,
    remove_leftovers,
    replace_stop_first,
    rolled_back,
    start_created,
)
from gpuplan.resources.container.apply.readiness import wait_ready
from gpuplan.resources.container.apply.triton import drain_previous
from gpuplan.resources.container.read import NEW_SUFFIX, PREVIOUS_SUFFIX
from gpuplan.resources.snapshot.containers import EngineContainer
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem
from gpuplan.types.value import JsonObject, mapping, texts

_WITHOUT_NAMES = ("bridge", "host", "none", "default")
"""Networks that do not resolve container names."""


def replace_start_first(container: ContainerContext) -> None:
    """Start the new container next to the running one, wait until it is ready, then switch the name over.

    If the previous container does not run, this is a stop-first replacement.

    Raises:
        Problem: the new one is not ready; the previous one was never stopped.
    """
    _finish_interrupted_switch(container)
    previous = current_container(container)
    if previous is None or not previous.busy:
        replace_stop_first(container)
        return
    devices = current_devices(container.gpus, container.address, container.apply)
    for own in container.own_containers():
        if own.id != previous.id:
            container.remove(own)
    try:
        new = create(_without_aliases(container), devices, container.name + NEW_SUFFIX)
        start_created(container, new)
        wait_ready(new, container, container.spec, replaces=True)
        keeps_address = _switch(container, new, previous)
    except ConnectionLost:
        raise
    except Problem as problem:
        raise Problem((*problem.diagnostics, *_roll_back(container, previous))) from problem
    except Exception:
        for diagnostic in _roll_back(container, previous):
            container.say(f"{diagnostic.summary}: {diagnostic.detail}")
        raise
    _retire(container, previous, keeps_address)


def _without_aliases(container: ContainerContext) -> ContainerContext:
    """The same without network aliases, by which clients would find the new container before it is ready."""
    return replace(container, spec=replace(container.spec, networks=dict.fromkeys(container.spec.networks, ())))


def _finish_interrupted_switch(container: ContainerContext) -> None:
    """Give a running new container the name if a run was interrupted between the two renames of `_switch`.

    It was ready then, so this is right even if the old one has stopped since.
    """
    new, old = (container.find(container.name + suffix) for suffix in (NEW_SUFFIX, PREVIOUS_SUFFIX))
    own = {each.id for each in container.own_containers()}
    if new is None or old is None or not {new.id, old.id} <= own:
        return
    if new.busy and container.find(container.name) is None:
        container.rename(new, container.name)


def _switch(container: ContainerContext, new: str, previous: EngineContainer) -> Mapping[str, bool]:
    keeps_address = add_names(new, container)
    if keeps_address:
        wait_ready(new, container, container.spec, replaces=True)
    if previous.name == container.name:
        container.rename(previous, container.name + PREVIOUS_SUFFIX)
    with container.explain_errors(f"renaming the new container to {container.name}"):
        container.docker.rename(new, container.name)
    container.say(f"switched to the new {container.name}")
    return keeps_address


def _retire(container: ContainerContext, previous: EngineContainer, keeps_address: Mapping[str, bool]) -> None:
    """Let the previous container finish its requests, then stop and remove it; the new one serves already."""
    remove_names(previous.id, keeps_address, container)
    drain_previous(previous, container.spec.drain, container)
    container.stop(previous)
    remove_leftovers(container)


def _roll_back(container: ContainerContext, previous: EngineContainer) -> tuple[Diagnostic, ...]:
    try:
        new = container.find(container.name + NEW_SUFFIX)
        current = container.find(previous.id)
        if current is not None and current.name != previous.name:
            container.rename(current, previous.name)
        kept = keep_failed(new, container)
    except Problem as problem:
        return problem.diagnostics
    if current is None or current.status != "running":
        return kept
    summary = "Rolled back: the previous container is still running"
    return (*kept, rolled_back(summary, f"{previous.name} was not stopped.", container))


def add_names(container_id: str, container: ContainerContext) -> Mapping[str, bool]:
    """Give a new container its name and aliases on every network that resolves names.

    The engine binds aliases to a connection, so the container is disconnected and connected again, which is harmless
    while no client uses it. Returns by network whether a container can request its address there and so keep it.

    Raises:
        Problem: the engine refused.
    """
    keeps: dict[str, bool] = {}
    for network, endpoint in _endpoints(container_id, container).items():
        network_id = str(endpoint.get("NetworkID"))
        names = (network, network_id, network_id[:12])
        aliases = {alias for name in names for alias in container.spec.networks.get(name, ())} - {container.name}
        with container.explain_errors(f"giving {container.name} its names on the network {network}"):
            keeps[network] = _can_keep_address(container_id, network, endpoint, container)
            container.docker.connect_container_to_network(
                container_id, network, aliases=[container.name, *sorted(aliases)]
            )
    return keeps


def remove_names(container_id: str, keeps_address: Mapping[str, bool], container: ContainerContext) -> None:
    """Remove the aliases of the previous container where it keeps its address, so that open connections survive.

    Raises:
        Problem: the engine refused.
    """
    for network, endpoint in _endpoints(container_id, container).items():
        aliases = set(texts(endpoint.get("Aliases"))) - {container_id[:12]}
        address = str(endpoint.get("IPAddress") or "")
        if aliases and address and keeps_address.get(network, False):
            with container.explain_errors(f"removing the names of the previous container on the network {network}"):
                container.docker.disconnect_container_from_network(container_id, network)
                container.docker.connect_container_to_network(container_id, network, ipv4_address=address)


def _endpoints(container_id: str, container: EngineContext) -> Mapping[str, JsonObject]:
    with container.explain_errors("inspecting its networks"):
        raw = mapping(container.docker.inspect_container(container_id))
    networks = mapping(mapping(raw.get("NetworkSettings")).get("Networks"))
    return {name: mapping(endpoint) for name, endpoint in networks.items() if name not in _WITHOUT_NAMES}


def _can_keep_address(container_id: str, network: str, endpoint: JsonObject, container: EngineContext) -> bool:
    """Disconnect an unused container and try whether it can be connected again with its address.

    An engine accepts addresses only on networks whose subnet was configured, and there is no other way to ask. The
    address is not left with the container: after a reboot another one may have it, and this one would not start.
    """
    from docker.errors import APIError

    address = str(endpoint.get("IPAddress") or "")
    container.docker.disconnect_container_from_network(container_id, network)
    try:
        container.docker.connect_container_to_network(container_id, network, ipv4_address=address)
    except APIError:
        return False
    container.docker.disconnect_container_from_network(container_id, network)
    return True
