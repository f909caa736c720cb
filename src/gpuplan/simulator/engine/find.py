"""Finding containers and images by name, id, or the beginning of an id."""

from __future__ import annotations

import hashlib
import re

from gpuplan.simulator.engine.http import EngineError
from gpuplan.simulator.engine.registry import familiar
from gpuplan.simulator.state import Container, Image, Network, NodeState

_HEX = re.compile(r"^[0-9a-f]{2,64}$")


def find_container(state: NodeState, reference: str) -> Container:
    """The container; 404 in the engine's words where there is none."""
    if reference in state.containers:
        return state.containers[reference]
    name = reference.removeprefix("/")
    for container in state.containers.values():
        if container.name == name:
            return container
    close = [one for one in state.containers.values() if _HEX.match(reference) and one.id.startswith(reference)]
    if len(close) > 1:
        raise EngineError(400, f"Multiple IDs found with provided prefix: {reference}")
    if close:
        return close[0]
    raise EngineError(404, f"No such container: {reference}")


def find_image(state: NodeState, reference: str) -> Image | None:
    """The image by tag, digest or id."""
    name = familiar(reference)
    bare = reference.removeprefix("sha256:")
    for image in state.images:
        if name in image.tags or name in image.digests or image.id == reference:
            return image
    for image in state.images:
        if _HEX.match(bare) and image.id.removeprefix("sha256:").startswith(bare):
            return image
    return None


def find_network(state: NodeState, reference: str) -> Network:
    """The network by name, id, or the beginning of an id; 404 in the engine's words where there is none."""
    known = [*own_networks(state), *state.networks]
    for network in known:
        if reference in (network.name, network.id):
            return network
    for network in known:
        if _HEX.match(reference) and network.id.startswith(reference):
            return network
    raise EngineError(404, f"network {reference} not found")


def own_networks(state: NodeState) -> list[Network]:
    """The three that every engine has."""
    return [
        Network(hashlib.sha256(f"{state.boot_id} {name}".encode()).hexdigest(), name, driver, state.booted)
        for name, driver in (("bridge", "bridge"), ("host", "host"), ("none", "null"))
    ]


def image_by_id(state: NodeState, identity: str) -> Image | None:
    """The image of an id."""
    return next((image for image in state.images if image.id == identity), None)
