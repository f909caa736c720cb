"""Apply: does one step on a container, and believes only what a second look at the engine says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gpuplan.kinds.container.bring import bring, image_address, present
from gpuplan.kinds.container.faults import told
from gpuplan.kinds.container.lifecycle import Making, make, remove, start, update
from gpuplan.kinds.container.raw import texts
from gpuplan.kinds.container.shape import ContainerSpec, from_json
from gpuplan.kinds.container.standing import discard, halt, named
from gpuplan.kinds.room import Hands, Memory
from gpuplan.model.change import Step
from gpuplan.model.diagnostic import Diagnostic, Problem
from gpuplan.model.value import JsonObject, as_object


def apply(step: Step, hands: Hands) -> Memory:
    """Do one step of this room.

    Raises:
        Problem: it failed, or the second look does not show it.
    """
    return _ACTS[step.name](step, hands)


def _bring(step: Step, hands: Hands) -> Memory:
    return bring(_spec(step), step.address, hands)


def _stop(step: Step, hands: Hands) -> Memory:
    container = str(step.arguments["id"])
    if (found := named(container, step.address, hands)) is not None:
        halt(found, step.address, hands)
    after = named(container, step.address, hands)
    if after is not None and after.busy:
        detail = f"{after.name} was told to stop and is {after.status}."
        raise Problem(Diagnostic("A container did not stop", detail, address=str(step.address)))
    return ()


def _make(step: Step, hands: Hands) -> Memory:
    """The image is brought here as well where the step that was to bring it is not part of this run (--target)."""
    making = _making(step, hands)
    here = present(making.spec.image, step.address, hands)
    memory = [] if here else bring(making.spec, step.address, hands)
    make(making)
    return memory


def _start(step: Step, hands: Hands) -> Memory:
    start(_making(step, hands))
    return ()


def _update(step: Step, hands: Hands) -> Memory:
    update(str(step.arguments["id"]), _making(step, hands))
    return ()


def _tidy(step: Step, hands: Hands) -> Memory:
    for container in texts(step.arguments["ids"]):
        found = named(container, step.address, hands)
        if found is not None and found.plan == hands.plan:
            discard(found, step.address, hands)
    return ()


def _remove(step: Step, hands: Hands) -> Memory:
    remove(step.address, hands)
    return [(image_address(hands.node, image), None) for image in _take_away(step, hands)]


def _take_away(step: Step, hands: Hands) -> Iterator[str]:
    """Remove those images that gpuplan had brought and that no container uses any more."""
    for image in texts(step.arguments["images"]):
        if not present(image, step.address, hands):
            yield image
        elif not _used(image, step, hands) and _image_removed(image, hands):
            hands.say(f"removed image {image}")
            yield image


def _used(image: str, step: Step, hands: Hands) -> bool:
    with told(str(step.address), f"looking for containers of {image}"):
        return bool(hands.docker().containers(all=True, filters={"ancestor": image}))


def _image_removed(image: str, hands: Hands) -> bool:
    """False where it stays: an image that cannot go is no reason to call the container's removal a failure."""
    from docker.errors import APIError

    try:
        hands.docker().remove_image(image)
    except APIError as fault:
        hands.say(f"image {image} stays: {fault.explanation}")
        return False
    return True


def _making(step: Step, hands: Hands) -> Making:
    gpus: JsonObject = as_object(step.arguments.get("gpus", {}))
    return Making(step.address, _spec(step), str(step.arguments.get("digest", "")), gpus, hands)


def _spec(step: Step) -> ContainerSpec:
    return from_json(as_object(step.arguments["spec"]))


_ACTS: Mapping[str, Callable[[Step, Hands], Memory]] = {
    "image": _bring,
    "stop": _stop,
    "create": _make,
    "replace": _make,
    "start": _start,
    "update": _update,
    "tidy": _tidy,
    "remove": _remove,
}
