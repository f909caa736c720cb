"""Finding containers and images by name, id, or the beginning of an id."""

from __future__ import annotations

import re

from gpuplan.simulation.engine.http import EngineError
from gpuplan.simulation.engine.registry import familiar
from gpuplan.simulation.state import Container, Image, NodeState

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


def image_by_id(state: NodeState, identity: str) -> Image | None:
    """The image of an id."""
    return next((image for image in state.images if image.id == identity), None)
