"""The filters of container and image lists."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from gpuplan.simulator.document import mapping, texts
from gpuplan.simulator.engine.find import find_image
from gpuplan.simulator.engine.http import EngineError, Request
from gpuplan.simulator.state import Container, Image, NodeState


def filters_of(request: Request, known: tuple[str, ...]) -> Mapping[str, list[str]]:
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


def containers(state: NodeState, request: Request) -> list[Container]:
    """The containers that a list request means, newest first."""
    wanted = filters_of(request, ("label", "name", "id", "status", "ancestor", "network", "volume", "health", "exited"))
    found = sorted(state.containers.values(), key=lambda one: one.created, reverse=True)
    if not request.flag("all") and "status" not in wanted:
        found = [one for one in found if one.running or one.status == "restarting"]
    tests: Mapping[str, Callable[[Container, str], bool]] = {
        "name": lambda one, value: re.search(value, f"/{one.name}") is not None,
        "id": lambda one, value: one.id.startswith(value),
        "status": lambda one, value: one.status == value,
        "ancestor": lambda one, value: (image := find_image(state, value)) is not None and image.id == one.image,
    }
    for name, values in wanted.items():
        if name == "label":
            found = [one for one in found if all(labelled(one.config.get("Labels"), value) for value in values)]
        elif test := tests.get(name):
            found = [one for one in found if any(test(one, value) for value in values)]
    return found


def images(state: NodeState, request: Request) -> list[Image]:
    """The images that a list request means."""
    wanted = filters_of(request, ("reference", "label", "dangling", "before", "since"))
    found = list(state.images)
    for value in wanted.get("label", ()):
        found = [one for one in found if labelled(one.config.get("Labels"), value)]
    if references := wanted.get("reference"):
        found = [one for one in found if any(find_image(state, value) is one for value in references)]
    return found


def labelled(labels: object, wanted: str) -> bool:
    """True where the labels hold `key` or `key=value`."""
    key, equals, value = wanted.partition("=")
    held = mapping(labels)
    return key in held and (not equals or held[key] == value)
