"""Apply: runs one step on a container, an image or a CDI specification, and checks the result with a second look."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpuplan.resources.container.apply.engine import EngineContext
from gpuplan.resources.container.apply.gpu_access import write_specifications
from gpuplan.resources.container.apply.images import fetch_image, remove_image
from gpuplan.resources.container.apply.lifecycle import (
    ContainerContext,
    confirm_ready,
    remove_all,
    replace_stop_first,
    start,
    update,
)
from gpuplan.resources.container.apply.start_first import replace_start_first
from gpuplan.resources.container.apply.triton import drain
from gpuplan.resources.container.images import ImageRequest
from gpuplan.resources.container.read import PREVIOUS_SUFFIX
from gpuplan.resources.container.spec import REPLACES, from_json
from gpuplan.resources.kind import ApplyContext, Facts
from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.raw import texts
from gpuplan.types.change import Step
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem
from gpuplan.types.value import as_object


def apply_step(step: Step, context: ApplyContext) -> Facts:
    """Run one step of this kind.

    Raises:
        Problem: it failed, or the second look does not show its effect.
    """
    return _STEPS[step.name](step, context)


def _write_cdi(step: Step, context: ApplyContext) -> Facts:
    write_specifications(texts(step.payload["paths"]), step.address, context)
    return ()


def _fetch_image(step: Step, context: ApplyContext) -> Facts:
    image = step.payload
    request = ImageRequest(
        name=str(image["image"]),
        archive=str(image["archive"]),
        pull=str(image["pull"]),
        platform=str(image.get("platform", "")),
        ids=texts(image.get("ids")),
    )
    return fetch_image(request, EngineContext(address=step.address, apply=context))


def _remove_image(step: Step, context: ApplyContext) -> Facts:
    return remove_image(str(step.payload["image"]), EngineContext(address=step.address, apply=context))


def _stop(step: Step, context: ApplyContext) -> Facts:
    adopts = str(step.payload.get("adopts", ""))
    engine = EngineContext(address=step.address, apply=context, adopts=adopts)
    _remember_adoption(engine)
    for container_id in texts(step.payload["ids"]):
        if (container := engine.find(container_id)) is not None:
            drain(container, float(str(step.payload.get("drain") or 0.0)), engine)
            engine.stop(container)
        after = engine.find(container_id)
        if after is not None and after.busy:
            detail = f"gpuplan stopped {after.name}, but it is still {after.status}."
            raise Problem(Diagnostic("Container did not stop", detail, address=str(step.address)))
    return ()


def _replace_stop_first(step: Step, context: ApplyContext) -> Facts:
    return _adopting(replace_stop_first, _container_context(step, context))


def _replace_start_first(step: Step, context: ApplyContext) -> Facts:
    return _adopting(replace_start_first, _container_context(step, context))


def _start(step: Step, context: ApplyContext) -> Facts:
    start(_container_context(step, context))
    return ()


def _update(step: Step, context: ApplyContext) -> Facts:
    update(str(step.payload["id"]), _container_context(step, context))
    return ()


def _remove_leftovers(step: Step, context: ApplyContext) -> Facts:
    container = _container_context(step, context)
    confirm_ready(container)
    for container_id in texts(step.payload["ids"]):
        leftover = container.find(container_id)
        if leftover is not None and (leftover.plan == context.plan or _is_adopted(leftover, container)):
            container.remove(leftover)
    return ((step.address, None),)


def _remove(step: Step, context: ApplyContext) -> Facts:
    remove_all(EngineContext(address=step.address, apply=context))
    return ()


def _adopting(replace: Callable[[ContainerContext], None], container: ContainerContext) -> Facts:
    """Replace; while an unmanaged container is being replaced, the node remembers its id, so that a later run can
    restore it."""
    if not container.adopts:
        replace(container)
        return ()
    _remember_adoption(container)
    try:
        replace(container)
    except ConnectionLost:
        raise
    except Problem:
        restored = container.find(container.name)
        if restored is not None and restored.id == container.adopts:
            container.apply.remember(((container.address, None),))
        raise
    return ((container.address, None),)


def _remember_adoption(engine: EngineContext) -> None:
    if engine.adopts:
        engine.apply.remember(((engine.address, {REPLACES: engine.adopts}),))


def _is_adopted(leftover: Live, container: ContainerContext) -> bool:
    """True for an unmanaged container that a replacement renamed."""
    return not leftover.plan and leftover.name == container.name + PREVIOUS_SUFFIX


def _container_context(step: Step, context: ApplyContext) -> ContainerContext:
    return ContainerContext(
        address=step.address,
        apply=context,
        adopts=str(step.payload.get("adopts", "")),
        spec=from_json(as_object(step.payload["spec"])),
        digest=str(step.payload.get("digest", "")),
        gpus=as_object(step.payload.get("gpus", {})),
        by_cdi=step.payload.get("cdi") is True,
    )


_STEPS: Mapping[str, Callable[[Step, ApplyContext], Facts]] = {
    "write-cdi": _write_cdi,
    "fetch": _fetch_image,
    "remove-image": _remove_image,
    "stop": _stop,
    "create": _replace_stop_first,
    "replace": _replace_stop_first,
    "replace-start-first": _replace_start_first,
    "start": _start,
    "update": _update,
    "remove-leftovers": _remove_leftovers,
    "remove": _remove,
}
