"""Names: the names by which a container is found on its networks, given and taken while another one has them too.

An engine binds aliases to a connection, so that it is made anew: that of a new container before anybody uses it, and
that of an old one only where it keeps its address, so that what is open over it goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuplan.resources.container.apply.engine import (
    explain_engine_errors,
    find_container,
    own_containers,
    remove_container,
    rename_container,
    stop_container,
)
from gpuplan.resources.container.apply.gpu_access import devices_now
from gpuplan.resources.container.apply.lifecycle import (
    ContainerContext,
    create,
    current_container,
    keep_failed,
    replace_stop_first,
    start_created,
    tidy,
)
from gpuplan.resources.container.apply.readiness import wait_ready
from gpuplan.resources.container.apply.triton import drain_previous
from gpuplan.resources.container.read import NEW_SUFFIX, PREVIOUS_SUFFIX
from gpuplan.resources.container.spec import ContainerSpec
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.raw import mapping, texts
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem, Severity
from gpuplan.types.value import JsonObject

_NAMELESS = ("bridge", "host", "none", "default")
"""Networks on which containers have no names."""


def add_names(
    container: str, name: str, spec: ContainerSpec, address: Address, context: ApplyContext
) -> Mapping[str, bool]:
    """Have a new container answer to a name and to the spec's aliases, on all networks on which it is found by names.

    Of each such network, whether a container can ask for an address there, and so keep the one that it has.

    Raises:
        Problem: the engine refused.
    """
    keeps: dict[str, bool] = {}
    for network, endpoint in _endpoints(container, address, context).items():
        identity = str(endpoint.get("NetworkID"))
        stated = {alias for called in (network, identity, identity[:12]) for alias in spec.networks.get(called, ())}
        with explain_engine_errors(str(address), f"giving {name} its names on the network {network}"):
            keeps[network] = _could_keep(container, network, endpoint, context)
            context.docker().connect_container_to_network(container, network, aliases=[name, *sorted(stated - {name})])
    return keeps


def remove_names(container: str, keeps: Mapping[str, bool], address: Address, context: ApplyContext) -> None:
    """Take the aliases of a container that another took over from, where it can keep its address.

    Raises:
        Problem: the engine refused.
    """
    engine = context.docker()
    for network, endpoint in _endpoints(container, address, context).items():
        aliases, own = set(texts(endpoint.get("Aliases"))) - {container[:12]}, str(endpoint.get("IPAddress") or "")
        if aliases and own and keeps.get(network, False):
            with explain_engine_errors(str(address), f"taking its names on the network {network}"):
                engine.disconnect_container_from_network(container, network)
                engine.connect_container_to_network(container, network, ipv4_address=own)


def _endpoints(container: str, address: Address, context: ApplyContext) -> Mapping[str, JsonObject]:
    with explain_engine_errors(str(address), "looking at its networks"):
        raw = mapping(context.docker().inspect_container(container))
    networks = mapping(mapping(raw.get("NetworkSettings")).get("Networks"))
    return {name: mapping(endpoint) for name, endpoint in networks.items() if name not in _NAMELESS}


def _could_keep(container: str, network: str, endpoint: JsonObject, context: ApplyContext) -> bool:
    """Take a container that nobody uses off a network, and try whether it could come back with its address.

    An engine takes addresses only on networks whose subnet somebody chose, and says so in no other way. The address is
    not left with it: after a reboot another container may have it, and this one would not start.
    """
    from docker.errors import APIError

    engine, own = context.docker(), str(endpoint.get("IPAddress") or "")
    engine.disconnect_container_from_network(container, network)
    try:
        engine.connect_container_to_network(container, network, ipv4_address=own)
    except APIError:
        return False
    engine.disconnect_container_from_network(container, network)
    return True


def replace_start_first(making: ContainerContext) -> None:
    """Create, start and wait beside the one that serves, then take its name and its place.

    Raises:
        Problem: it did not come up; the one before was never stopped.
    """
    address, context = making.address, making.context
    _finish_handover(making)
    before = current_container(address, context, making.adopts)
    if before is None or not before.busy:
        replace_stop_first(making)
        return
    devices = devices_now(making.gpus, address, context)
    for each in own_containers(address, context, making.adopts):
        if each.id != before.id:
            remove_container(each, address, context)
    try:
        new = create(_unfound(making), devices, address.name + NEW_SUFFIX)
        start_created(making, new)
        wait_ready(new, address, making.spec, context, takes_over=True)
        keeps = _hand_over(making, new, before)
    except ConnectionLost:
        raise
    except Problem as problem:
        raise Problem((*problem.diagnostics, *_step_back(making, before))) from problem
    except Exception:
        for said in _step_back(making, before):
            context.say(f"{said.summary}: {said.detail}")
        raise
    _retire(making, before, keeps)


def _unfound(making: ContainerContext) -> ContainerContext:
    """The same without the further names of its networks, by which clients would find it before it is ready."""
    return replace(making, spec=replace(making.spec, networks=dict.fromkeys(making.spec.networks, ())))


def _finish_handover(making: ContainerContext) -> None:
    """Of a run that was cut off between the two renames, the new one has proven that it serves: give it the name.

    So it has where the old one went down since.
    """
    name = making.address.name
    new, old = (
        find_container(name + ending, making.address, making.context) for ending in (NEW_SUFFIX, PREVIOUS_SUFFIX)
    )
    mine = {each.id for each in own_containers(making.address, making.context, making.adopts)}
    ours = all(each is not None and each.id in mine for each in (new, old))
    if ours and new is not None and new.busy and find_container(name, making.address, making.context) is None:
        rename_container(new, name, making.address, making.context)


def _hand_over(making: ContainerContext, new: str, before: Live) -> Mapping[str, bool]:
    address, context = making.address, making.context
    keeps = add_names(new, making.name, making.spec, address, context)
    if keeps:
        wait_ready(new, address, making.spec, context, takes_over=True)
    if before.name == address.name:
        rename_container(before, address.name + PREVIOUS_SUFFIX, address, context)
    with explain_engine_errors(str(address), f"giving {address.name} its name"):
        context.docker().rename(new, address.name)
    context.say(f"the new {address.name} took over")
    return keeps


def _retire(making: ContainerContext, before: Live, keeps: Mapping[str, bool]) -> None:
    """The one before ends what it began, and goes; the new one serves already, whatever happens to the old."""
    address, context = making.address, making.context
    remove_names(before.id, keeps, address, context)
    drain_previous(before, making.spec.drain, address, context)
    stop_container(before, address, context)
    tidy(address, context, making.adopts)


def _step_back(making: ContainerContext, before: Live) -> tuple[Diagnostic, ...]:
    address, context = making.address, making.context
    try:
        new = find_container(address.name + NEW_SUFFIX, address, context)
        current = find_container(before.id, address, context)
        if current is not None and current.name != before.name:
            rename_container(current, before.name, address, context)
        serves = current is not None and current.status == "running"
        return (*keep_failed(new, address, context), *((_serves_on(making),) if serves else ()))
    except Problem as problem:
        return problem.diagnostics


def _serves_on(making: ContainerContext) -> Diagnostic:
    return Diagnostic(
        "The container before serves on",
        "It was never stopped, and has its name.",
        address=str(making.address),
        severity=Severity.WARNING,
    )
