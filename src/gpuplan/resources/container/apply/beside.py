"""Beside: starts the new container while the old one serves, and hands over once it is ready (`update: start-first`).

Clients reach such a container by its name on a network of its own. The new one gets that name as an alias when it is
ready, then the old one loses it, so that the name always leads to one that serves (acts/names.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuplan.resources.container.apply.drain import drain_previous
from gpuplan.resources.container.apply.faults import explain_engine_errors
from gpuplan.resources.container.apply.lifecycle import (
    ContainerContext,
    create,
    replace_stop_first,
    start_created,
    tidy,
)
from gpuplan.resources.container.apply.lookup import devices_now
from gpuplan.resources.container.apply.names import add_names, remove_names
from gpuplan.resources.container.apply.ready import wait_ready
from gpuplan.resources.container.apply.standing import (
    current_container,
    find_container,
    keep_failed,
    own_containers,
    remove_container,
    rename_container,
    stop_container,
)
from gpuplan.resources.container.read import NEW_SUFFIX, PREVIOUS_SUFFIX
from gpuplan.resources.snapshot.docker import Live
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem, Severity


def replace_start_first(making: ContainerContext) -> None:
    """Create, start and wait beside the one that serves, then take its name and its place.

    Raises:
        Problem: it did not come up; the one before was never stopped.
    """
    address, context = making.address, making.context
    _finish_handover(making)
    before = current_container(address, context, making.adopts)
    if before is None or not before.busy:
        replace_stop_first(making)
        return
    devices = devices_now(making.gpus, address, context)
    for each in own_containers(address, context, making.adopts):
        if each.id != before.id:
            remove_container(each, address, context)
    try:
        new = create(_unfound(making), devices, address.name + NEW_SUFFIX)
        start_created(making, new)
        wait_ready(new, address, making.spec, context, takes_over=True)
        keeps = _hand_over(making, new, before)
    except ConnectionLost:
        raise
    except Problem as problem:
        raise Problem((*problem.diagnostics, *_step_back(making, before))) from problem
    except Exception:
        for said in _step_back(making, before):
            context.say(f"{said.summary}: {said.detail}")
        raise
    _retire(making, before, keeps)


def _unfound(making: ContainerContext) -> ContainerContext:
    """The same without the further names of its networks, by which clients would find it before it is ready."""
    return replace(making, spec=replace(making.spec, networks=dict.fromkeys(making.spec.networks, ())))


def _finish_handover(making: ContainerContext) -> None:
    """Of a run that was cut off between the two renames, the new one has proven that it serves: give it the name.

    So it has where the old one went down since.
    """
    name = making.address.name
    new, old = (
        find_container(name + ending, making.address, making.context) for ending in (NEW_SUFFIX, PREVIOUS_SUFFIX)
    )
    mine = {each.id for each in own_containers(making.address, making.context, making.adopts)}
    ours = all(each is not None and each.id in mine for each in (new, old))
    if ours and new is not None and new.busy and find_container(name, making.address, making.context) is None:
        rename_container(new, name, making.address, making.context)


def _hand_over(making: ContainerContext, new: str, before: Live) -> Mapping[str, bool]:
    address, context = making.address, making.context
    keeps = add_names(new, making.name, making.spec, address, context)
    if keeps:
        wait_ready(new, address, making.spec, context, takes_over=True)
    if before.name == address.name:
        rename_container(before, address.name + PREVIOUS_SUFFIX, address, context)
    with explain_engine_errors(str(address), f"giving {address.name} its name"):
        context.docker().rename(new, address.name)
    context.say(f"the new {address.name} took over")
    return keeps


def _retire(making: ContainerContext, before: Live, keeps: Mapping[str, bool]) -> None:
    """The one before ends what it began, and goes; the new one serves already, whatever happens to the old."""
    address, context = making.address, making.context
    remove_names(before.id, keeps, address, context)
    drain_previous(before, making.spec.drain, address, context)
    stop_container(before, address, context)
    tidy(address, context, making.adopts)


def _step_back(making: ContainerContext, before: Live) -> tuple[Diagnostic, ...]:
    address, context = making.address, making.context
    try:
        new = find_container(address.name + NEW_SUFFIX, address, context)
        current = find_container(before.id, address, context)
        if current is not None and current.name != before.name:
            rename_container(current, before.name, address, context)
        serves = current is not None and current.status == "running"
        return (*keep_failed(new, address, context), *((_serves_on(making),) if serves else ()))
    except Problem as problem:
        return problem.diagnostics


def _serves_on(making: ContainerContext) -> Diagnostic:
    return Diagnostic(
        "The container before serves on",
        "It was never stopped, and has its name.",
        address=str(making.address),
        severity=Severity.WARNING,
    )
