"""Networks: what of its networks a container could not be given at its creation."""

from __future__ import annotations

from gpuplan.resources.container.apply.faults import explain_engine_errors
from gpuplan.resources.container.shape import ContainerSpec
from gpuplan.resources.kind import ApplyContext
from gpuplan.types.address import Address


def join_networks(container: str, spec: ContainerSpec, address: Address, context: ApplyContext) -> None:
    """Attach a container that was just created to every network but the first, on which it was created.

    Raises:
        Problem: the engine refused.
    """
    for name in list(spec.networks)[1:]:
        with explain_engine_errors(str(address), f"attaching {address.name} to the network {name}"):
            aliases = list(spec.networks[name])
            context.docker().connect_container_to_network(container, name, aliases=aliases or None)
        context.say(f"attached {address.name} to {name}")
