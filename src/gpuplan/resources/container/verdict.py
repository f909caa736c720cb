"""Verdict: what is to be done about one wanted container, and what that means for the others of its node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from gpuplan.resources.container.read import ObservedContainers
from gpuplan.resources.container.shape import ContainerSpec
from gpuplan.resources.container.steps import TAKE_OVER, DesiredContainer
from gpuplan.resources.snapshot.docker import Live
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, Unknown
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.resource import Desired


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
