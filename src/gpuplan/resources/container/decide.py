"""Verdict: what is to be done about one wanted container, and what that means for the others of its node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from gpuplan.resources.container.changes import TAKE_OVER, disturbance, in_its_place
from gpuplan.resources.container.differences import Differences, differences
from gpuplan.resources.container.images import images_of
from gpuplan.resources.container.read import (
    NEW_SUFFIX,
    PREVIOUS_SUFFIX,
    ObservedContainers,
    is_leftover,
    unnamed_volumes,
)
from gpuplan.resources.container.resolve import DesiredContainer, devices_of
from gpuplan.resources.container.spec import REPLACES, VISIBLE, ContainerSpec
from gpuplan.resources.snapshot.devices import environment
from gpuplan.resources.snapshot.docker import Live
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, Comparison, Unknown
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import ProbeError


@dataclass(frozen=True)
class Decision:
    """What is to be done about one wanted container."""

    desired: Desired
    wanted: DesiredContainer | None = None
    """Absent where the spec could not be read."""
    change: Change | None = None
    unknown: Unknown | None = None
    warning: Diagnostic | None = None
    foreign: Live | None = None
    """The container of its name that somebody else made."""

    @property
    def address(self) -> Address:
        """Its address."""
        return self.desired.address

    @property
    def spec(self) -> ContainerSpec | None:
        """What is wanted of it."""
        return self.wanted.spec if self.wanted else None

    @property
    def welcome(self) -> Live | None:
        """The container that somebody else made, where it is as it is wanted."""
        return self.foreign if self.change is None and self.unknown is None else None

    @property
    def made(self) -> bool:
        """True where the change set makes the container, of its image."""
        return self.change is not None and self.change.action in (Action.CREATE, Action.REPLACE) and self.starts

    @property
    def takes_over(self) -> bool:
        """True where a new container starts while the old one serves."""
        return self.change is not None and any(step.name == TAKE_OVER for step in self.change.steps)

    def makes(self, address: Address) -> bool:
        """True where a step of the change makes that, which may be a part of the container."""
        return self.change is not None and any(address.covers(one) for step in self.change.steps for one in step.makes)

    @property
    def starts(self) -> bool:
        """True where the change set starts the container, or the one that takes its place."""
        return self.change is not None and any(self.address in step.makes for step in self.change.steps)


def welcome(verdicts: Sequence[Decision]) -> Mapping[str, Set[Address]]:
    """Ids of the containers of somebody else's that are as they are wanted, with the GPUs that the plan file gives."""
    return {
        verdict.welcome.id: verdict.wanted.bound.devices.keys()
        for verdict in verdicts
        if verdict.welcome and verdict.wanted
    }


def told(verdicts: Sequence[Decision]) -> Set[str]:
    """Ids of the containers of somebody else's of which a change or what is unknown tells."""
    foreign = {each.foreign.id for each in verdicts if each.foreign and not each.welcome}
    return foreign | {each.wanted.adopts for each in verdicts if each.wanted and each.wanted.adopts}


def ours(verdicts: Sequence[Decision], observed: ObservedContainers, plan: str) -> Set[str]:
    """Ids of containers that are in nobody's way: those of the plan file, and those that stand for one of its own."""
    made = {live.id for live in observed.containers if live.plan == plan}
    return (
        made
        | welcome(verdicts).keys()
        | {each.wanted.adopts for each in verdicts if each.wanted and each.wanted.adopts}
    )


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


_FIXES = {
    "no_docker": "Install Docker on the node, or start it: systemctl start docker.",
    "docker_refused": "Start the engine: systemctl start docker; then look at journalctl -u docker.",
    "no_permission": "Put the user into the group docker, or set ansible_become: true in the inventory.",
    "timeout": "The engine hangs; look at journalctl -u docker, and restart it if need be.",
}


def unread(desired: Sequence[Desired], error: ProbeError, context: DiffContext) -> Comparison:
    """Every container that is wanted or was applied is unknown."""
    recorded = (address for address in context.record.resources if address.kind == "container")
    addresses = dict.fromkeys((*(each.address for each in desired), *recorded))
    return Comparison(unknown=tuple(Unknown(address, _engine(address, error)) for address in addresses))


def unresolved(address: Address, parts: Sequence[str]) -> Unknown:
    """A container whose devices cannot be told."""
    return Unknown(
        address,
        Diagnostic(
            "The GPUs of a container could not be told",
            f"{', '.join(parts)} could not be read on {address.node}, so {address.name} was not compared.",
            "See what is said of the node's GPUs.",
            address=str(address),
        ),
    )


def spec_unread(address: Address, fault: ValueError) -> Unknown:
    """A container whose spec, as a record or a saved change set keeps it, is of another form."""
    return Unknown(
        address,
        Diagnostic(
            "What was applied of a container could not be read",
            f"The spec of {address.name} is not of a form that this version of gpuplan knows ({_where(fault)}), so it "
            "was not compared.",
            "Another version may have written it: use that one, or apply the plan file again with this one.",
            address=str(address),
        ),
    )


def before_unread(desired: Desired, fault: ValueError) -> Diagnostic:
    """The record's spec is of another form; the container is compared with the plan file alone."""
    address = desired.address
    return Diagnostic(
        "What was applied of a container could not be read",
        f"The record of {address.name} is not of a form that this version of gpuplan knows ({_where(fault)}); what the "
        "plan file stated then and does not state now is left as it is.",
        "Apply the plan file: that writes the record anew.",
        where=desired.where,
        address=str(address),
        severity=Severity.WARNING,
    )


def _where(fault: ValueError) -> str:
    """The fields at fault; never their values, which may be private."""
    from pydantic import ValidationError

    if not isinstance(fault, ValidationError):
        return str(fault)
    return ", ".join(sorted({".".join(map(str, error["loc"][:2])) for error in fault.errors(include_input=False)}))


def _engine(address: Address, error: ProbeError) -> Diagnostic:
    return Diagnostic(
        "The Docker engine could not be asked",
        f"Docker on {address.node}: {error.text}",
        _FIXES.get(error.code, "Try docker info on the node."),
        address=str(address),
    )
