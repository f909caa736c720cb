"""Adopting: a container of a wanted name that no plan file made.

It is left alone as long as it is what is wanted. No engine lets labels be put on a container that is there, so that
taking one over means replacing it, and that is done only where the plan file says `adopt: true`.
"""

from __future__ import annotations

from dataclasses import replace

from gpuplan.resources.container.bound import devices_of
from gpuplan.resources.container.changes import disturbance, in_its_place
from gpuplan.resources.container.differences import Differences, differences
from gpuplan.resources.container.images import images_of
from gpuplan.resources.container.read import (
    NEW_SUFFIX,
    PREVIOUS_SUFFIX,
    ObservedContainers,
    is_leftover,
    unnamed_volumes,
)
from gpuplan.resources.container.shape import REPLACES, VISIBLE, ContainerSpec
from gpuplan.resources.container.steps import DesiredContainer
from gpuplan.resources.snapshot.devices import environment
from gpuplan.resources.snapshot.docker import Live
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.resource import DiffContext

_ADOPTS = "somebody else made it, and adopt: true has it replaced by one of gpuplan's own"
_OWN_ENDING = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""What gpuplan adds to a container with GPUs, and another maker need not have added."""


def holder(name: str, observed: ObservedContainers) -> Live | None:
    """The container of that name that no plan file made."""
    return next(
        (live for live in observed.containers if live.name == name and not live.plan and not is_leftover(live)), None
    )


def moved_aside(address: Address, observed: ObservedContainers, context: DiffContext) -> Live | None:
    """The container of somebody else's that an adoption has begun to replace, under its own name or the one aside."""
    known = context.record.remembered.get(address, {}).get(REPLACES)
    names = (address.name, address.name + PREVIOUS_SUFFIX)
    return next((live for live in observed.containers if live.id == known and live.name in names), None)


def stands(current: Live | None, foreign: Live) -> bool:
    """True where somebody else's container has the name, and of ours at most one that was to take its place."""
    return current is None or (current.name == foreign.name + NEW_SUFFIX and not foreign.plan)


def compared(wanted: DesiredContainer, live: Live, observed: ObservedContainers, context: DiffContext) -> Differences:
    """In what a container that somebody else made is not as the plan file wants it."""
    spec = _without_ours(wanted.spec, live)
    found = differences(spec, None, live, wanted.bound, observed, context)
    if (why := disturbance(wanted, context)) is not None:
        return replace(found, reasons=(*found.reasons, why[1]))
    return found


def adopted(wanted: DesiredContainer, live: Live, observed: ObservedContainers, context: DiffContext) -> Change:
    """The change by which one of gpuplan's own takes the place of somebody else's."""
    found = compared(wanted, live, observed, context)
    fields = tuple(change for change in found.fields if change.path != "name")
    taking = replace(
        wanted,
        had=(*wanted.had, *devices_of(live, observed, context)),
        leaves=tuple(dict.fromkeys((*wanted.leaves, *images_of([live], observed)))),
    )
    unnamed = unnamed_volumes(live, observed.image(live.image_id))
    lost = [f"its volume without a name at {path} goes with it" for path in unnamed]
    return in_its_place(taking, live, fields, (_ADOPTS, *lost, *found.reasons), disturbance(wanted, context))


def differing(wanted: DesiredContainer, live: Live, found: Differences) -> tuple[Change, Diagnostic]:
    """What is told of one that is not as the plan file wants it: nothing is done to it."""
    paths = [change.path for change in found.fields]
    what = ", ".join(dict.fromkeys(paths)) or "; ".join(found.reasons)
    name, node = wanted.address.name, wanted.address.node
    diagnostic = Diagnostic(
        "The container's name is taken",
        f"A container called {name} ({live.image}, {live.status}) is on {node}; somebody else made it, and it is not "
        f"as the plan file wants it: {what}.",
        f"Write into the plan file what it is, as gpuplan discover does; or state adopt: true for {name}, which "
        "replaces it; or choose another name.",
        where=wanted.desired.where,
        address=str(wanted.address),
    )
    reasons = ("somebody else made it, so that nothing is done to it", *found.reasons)
    return Change(wanted.address, Action.REPLACE, found.fields, reasons), diagnostic


def gone_when_it_stops(wanted: DesiredContainer, live: Live) -> Diagnostic:
    """Why one that was started with --rm is not taken over."""
    return Diagnostic(
        "A container cannot be taken over",
        f"{live.name} on {wanted.address.node} was started with --rm: it is gone when it stops, and could not come "
        "back if the one in its place does not get ready.",
        f"Stop it on {wanted.address.node}, and gpuplan makes one of its own:\n    docker stop {live.name}",
        where=wanted.desired.where,
        address=str(wanted.address),
    )


def removes_itself(live: Live) -> bool:
    """True where the engine removes the container as soon as it stops."""
    return live.host_config.get("AutoRemove") is True


def _without_ours(spec: ContainerSpec, live: Live) -> ContainerSpec:
    """Without the variables that gpuplan adds by itself: what they are for is compared as devices."""
    has = environment(live.config)
    env = {
        name: value
        for name, value in spec.env.items()
        if name != VISIBLE and (name in has or _OWN_ENDING.get(name) != value)
    }
    return replace(spec, env=env)
