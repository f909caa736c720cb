"""Finding containers and images by name, id, or the beginning of an id."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping

from gpuplan.simulator.engine.http import EngineError, EngineRequest
from gpuplan.simulator.engine.registry import familiar
from gpuplan.simulator.state import Network, NodeState, SimulatedContainer, SimulatedImage, mapping, texts

_HEX = re.compile(r"^[0-9a-f]{2,64}$")


def find_container(state: NodeState, reference: str) -> SimulatedContainer:
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


def find_image(state: NodeState, reference: str) -> SimulatedImage | None:
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


def image_by_id(state: NodeState, identity: str) -> SimulatedImage | None:
    """The image of an id."""
    return next((image for image in state.images if image.id == identity), None)


# The filters of container and image lists.


def filters_of(request: EngineRequest, known: tuple[str, ...]) -> Mapping[str, list[str]]:
    """Filter → values; both forms of the API, a list and a map of values, are read."""
    raw = request.query.get("filters")
    if not raw:
        return {}
    try:
        stated = mapping(json.loads(raw))
    except ValueError as error:
        raise EngineError(400, f"invalid filter: {error}") from None
    for name in stated:
        if name not in known:
            raise EngineError(400, f"Invalid filter '{name}'")
    return {name: texts(value) or list(mapping(value)) for name, value in stated.items()}


def containers(state: NodeState, request: EngineRequest) -> list[SimulatedContainer]:
    """The containers that a list request means, newest first."""
    wanted = filters_of(request, ("label", "name", "id", "status", "ancestor", "network", "volume", "health", "exited"))
    matches = sorted(state.containers.values(), key=lambda container: container.created, reverse=True)
    if not request.flag("all") and "status" not in wanted:
        matches = [container for container in matches if container.running or container.status == "restarting"]
    tests: Mapping[str, Callable[[SimulatedContainer, str], bool]] = {
        "name": lambda container, value: re.search(value, f"/{container.name}") is not None,
        "id": lambda container, value: container.id.startswith(value),
        "status": lambda container, value: container.status == value,
        "ancestor": lambda container, value: (
            (image := find_image(state, value)) is not None and image.id == container.image
        ),
    }
    for name, values in wanted.items():
        if name == "label":
            matches = [
                container
                for container in matches
                if all(labelled(container.config.get("Labels"), value) for value in values)
            ]
        elif test := tests.get(name):
            matches = [container for container in matches if any(test(container, value) for value in values)]
    return matches


def images(state: NodeState, request: EngineRequest) -> list[SimulatedImage]:
    """The images that a list request means."""
    wanted = filters_of(request, ("reference", "label", "dangling", "before", "since"))
    matches = list(state.images)
    for value in wanted.get("label", ()):
        matches = [image for image in matches if labelled(image.config.get("Labels"), value)]
    if references := wanted.get("reference"):
        matches = [image for image in matches if any(find_image(state, value) is image for value in references)]
    return matches


def labelled(labels: object, wanted: str) -> bool:
    """True where the labels hold `key` or `key=value`."""
    key, equals, value = wanted.partition("=")
    held = mapping(labels)
    return key in held and (not equals or held[key] == value)
