"""Names: the names by which a container is found on its networks, given and taken while another one has them too.

An engine binds aliases to a connection, so that it is made anew: that of a new container before anybody uses it, and
that of an old one only where it keeps its address, so that what is open over it goes on.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.resources.container.apply.faults import explain_engine_errors
from gpuplan.resources.container.shape import ContainerSpec
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.snapshot.raw import mapping, texts
from gpuplan.types.address import Address
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
