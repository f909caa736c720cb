"""Networks: what of its networks a container could not be given at its creation."""

from __future__ import annotations

from gpuplan.resources.container.acts.faults import told
from gpuplan.resources.container.shape import ContainerSpec
from gpuplan.resources.kind import Hands
from gpuplan.types.address import Address


def join_networks(container: str, spec: ContainerSpec, address: Address, hands: Hands) -> None:
    """Attach a container that was just created to every network but the first, on which it was created.

    Raises:
        Problem: the engine refused.
    """
    for name in list(spec.networks)[1:]:
        with told(str(address), f"attaching {address.name} to the network {name}"):
            aliases = list(spec.networks[name])
            hands.docker().connect_container_to_network(container, name, aliases=aliases or None)
        hands.say(f"attached {address.name} to {name}")
