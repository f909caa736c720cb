"""Apply: does one step on a container or an image, and believes only what a second look at the engine says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpuplan.resources.container.apply.engine import find_container, remove_container, stop_container
from gpuplan.resources.container.apply.gpu_access import regenerate
from gpuplan.resources.container.apply.images import fetch_image, remove_image
from gpuplan.resources.container.apply.lifecycle import (
    ContainerContext,
    prove,
    remove,
    replace_stop_first,
    start,
    update,
)
from gpuplan.resources.container.apply.start_first import replace_start_first
from gpuplan.resources.container.apply.triton import drain
from gpuplan.resources.container.images import ImageRequest
from gpuplan.resources.container.read import PREVIOUS_SUFFIX
from gpuplan.resources.container.spec import REPLACES, from_json
from gpuplan.resources.kind import ApplyContext, Memory
from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.raw import texts
from gpuplan.types.address import Address
from gpuplan.types.change import Step
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem
from gpuplan.types.value import JsonObject, as_object


def apply_step(step: Step, context: ApplyContext) -> Memory:
    """Do one step of this room.

    Raises:
        Problem: it failed, or the second look does not show it.
    """
    return _ACTS[step.name](step, context)


def _regenerate(step: Step, context: ApplyContext) -> Memory:
    regenerate(texts(step.arguments["paths"]), step.address, context)
    return ()


def _bring(step: Step, context: ApplyContext) -> Memory:
    stated = step.arguments
    ids = texts(stated.get("ids"))
    wish = ImageRequest(
        str(stated["image"]), str(stated["archive"]), str(stated["pull"]), str(stated.get("platform", "")), ids
    )
    return fetch_image(wish, step.address, context)


def _take_away(step: Step, context: ApplyContext) -> Memory:
    return remove_image(str(step.arguments["image"]), step.address, context)


def _stop(step: Step, context: ApplyContext) -> Memory:
    _begin(str(step.arguments.get("adopts", "")), step.address, context)
    for container in texts(step.arguments["ids"]):
        if (found := find_container(container, step.address, context)) is not None:
            drain(found, float(str(step.arguments.get("drain") or 0.0)), step.address, context)
            stop_container(found, step.address, context)
        after = find_container(container, step.address, context)
        if after is not None and after.busy:
            detail = f"{after.name} was told to stop and is {after.status}."
            raise Problem(Diagnostic("A container did not stop", detail, address=str(step.address)))
    return ()


def _make(step: Step, context: ApplyContext) -> Memory:
    return _in_turn(replace_stop_first, _making(step, context))


def _take_over(step: Step, context: ApplyContext) -> Memory:
    return _in_turn(replace_start_first, _making(step, context))


def _start(step: Step, context: ApplyContext) -> Memory:
    start(_making(step, context))
    return ()


def _update(step: Step, context: ApplyContext) -> Memory:
    update(str(step.arguments["id"]), _making(step, context))
    return ()


def _tidy(step: Step, context: ApplyContext) -> Memory:
    prove(_making(step, context))
    for container in texts(step.arguments["ids"]):
        found = find_container(container, step.address, context)
        if found is not None and (found.plan == context.plan or _put_aside(found, step.address)):
            remove_container(found, step.address, context)
    return ((step.address, None),)


def _remove(step: Step, context: ApplyContext) -> Memory:
    remove(step.address, context)
    return ()


def _in_turn(act: Callable[[ContainerContext], None], making: ContainerContext) -> Memory:
    """Do it; that it takes the place of what somebody else made is known as long as that one has not its name back."""
    if not making.adopts:
        act(making)
        return ()
    address, context = making.address, making.context
    _begin(making.adopts, address, context)
    try:
        act(making)
    except ConnectionLost:
        raise
    except Problem:
        back = find_container(address.name, address, context)
        if back is not None and back.id == making.adopts:
            context.remember(((address, None),))
        raise
    return ((address, None),)


def _begin(adopts: str, address: Address, context: ApplyContext) -> None:
    if adopts:
        context.remember(((address, {REPLACES: adopts}),))


def _put_aside(container: Live, address: Address) -> bool:
    """True for what somebody else made and a replacement of ours gave another name."""
    return not container.plan and container.name == address.name + PREVIOUS_SUFFIX


def _making(step: Step, context: ApplyContext) -> ContainerContext:
    gpus: JsonObject = as_object(step.arguments.get("gpus", {}))
    spec = from_json(as_object(step.arguments["spec"]))
    by_cdi, adopts = step.arguments.get("cdi") is True, str(step.arguments.get("adopts", ""))
    return ContainerContext(step.address, spec, str(step.arguments.get("digest", "")), gpus, context, adopts, by_cdi)


_ACTS: Mapping[str, Callable[[Step, ApplyContext], Memory]] = {
    "regenerate": _regenerate,
    "bring": _bring,
    "take-away": _take_away,
    "stop": _stop,
    "create": _make,
    "replace": _make,
    "take-over": _take_over,
    "start": _start,
    "update": _update,
    "tidy": _tidy,
    "remove": _remove,
}
