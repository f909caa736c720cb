"""Beside: starts the new container while the old one serves, and hands over once it is ready (`update: start-first`).

Clients reach such a container by its name on a network of its own. The new one gets that name as an alias when it is
ready, then the old one loses it, so that the name always leads to one that serves (acts/names.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuplan.resources.container.apply.drain import linger
from gpuplan.resources.container.apply.faults import told
from gpuplan.resources.container.apply.lifecycle import Making, create, make, start_created, tidy
from gpuplan.resources.container.apply.lookup import devices_now
from gpuplan.resources.container.apply.names import answer_to_the_name, lose_the_names
from gpuplan.resources.container.apply.ready import wait_ready
from gpuplan.resources.container.apply.standing import discard, halt, named, of_ours, rename, set_aside, standing
from gpuplan.resources.container.read import NEW, OLD
from gpuplan.resources.snapshot.docker import Live
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem, Severity


def take_over(making: Making) -> None:
    """Create, start and wait beside the one that serves, then take its name and its place.

    Raises:
        Problem: it did not come up; the one before was never stopped.
    """
    address, context = making.address, making.context
    _finish_handover(making)
    before = standing(address, context, making.adopts)
    if before is None or not before.busy:
        make(making)
        return
    devices = devices_now(making.gpus, address, context)
    for each in of_ours(address, context, making.adopts):
        if each.id != before.id:
            discard(each, address, context)
    try:
        new = create(_unfound(making), devices, address.name + NEW)
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


def _unfound(making: Making) -> Making:
    """The same without the further names of its networks, by which clients would find it before it is ready."""
    return replace(making, spec=replace(making.spec, networks=dict.fromkeys(making.spec.networks, ())))


def _finish_handover(making: Making) -> None:
    """Of a run that was cut off between the two renames, the new one has proven that it serves: give it the name.

    So it has where the old one went down since.
    """
    name = making.address.name
    new, old = (named(name + ending, making.address, making.context) for ending in (NEW, OLD))
    mine = {each.id for each in of_ours(making.address, making.context, making.adopts)}
    ours = all(each is not None and each.id in mine for each in (new, old))
    if ours and new is not None and new.busy and named(name, making.address, making.context) is None:
        rename(new, name, making.address, making.context)


def _hand_over(making: Making, new: str, before: Live) -> Mapping[str, bool]:
    address, context = making.address, making.context
    keeps = answer_to_the_name(new, making.name, making.spec, address, context)
    if keeps:
        wait_ready(new, address, making.spec, context, takes_over=True)
    if before.name == address.name:
        rename(before, address.name + OLD, address, context)
    with told(str(address), f"giving {address.name} its name"):
        context.docker().rename(new, address.name)
    context.say(f"the new {address.name} took over")
    return keeps


def _retire(making: Making, before: Live, keeps: Mapping[str, bool]) -> None:
    """The one before ends what it began, and goes; the new one serves already, whatever happens to the old."""
    address, context = making.address, making.context
    lose_the_names(before.id, keeps, address, context)
    linger(before, making.spec.drain, address, context)
    halt(before, address, context)
    tidy(address, context, making.adopts)


def _step_back(making: Making, before: Live) -> tuple[Diagnostic, ...]:
    address, context = making.address, making.context
    try:
        new = named(address.name + NEW, address, context)
        current = named(before.id, address, context)
        if current is not None and current.name != before.name:
            rename(current, before.name, address, context)
        serves = current is not None and current.status == "running"
        return (*set_aside(new, address, context), *((_serves_on(making),) if serves else ()))
    except Problem as problem:
        return problem.diagnostics


def _serves_on(making: Making) -> Diagnostic:
    return Diagnostic(
        "The container before serves on",
        "It was never stopped, and has its name.",
        address=str(making.address),
        severity=Severity.WARNING,
    )
