"""A step of the gpu room with the node that it is done on: looking, acting, and reading arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gpuplan.resources.gpu.apply import refusals
from gpuplan.resources.gpu.modes import Need
from gpuplan.resources.gpu.read import Gpu, ObservedGpus, read
from gpuplan.resources.kind import ApplyContext
from gpuplan.types.address import Address
from gpuplan.types.change import Step
from gpuplan.types.diagnostic import Problem, Refused
from gpuplan.types.value import JsonObject, as_list

Fact: TypeAlias = tuple[Address, JsonObject | None]
"""Something to be remembered of an address; None forgets."""


@dataclass(frozen=True)
class Task:
    """One step that is being done."""

    step: Step
    context: ApplyContext

    @property
    def uuid(self) -> str:
        """The GPU."""
        return self.text("gpu")

    def text(self, key: str) -> str:
        """An argument that is text."""
        return str(self.step.payload[key])

    def number(self, key: str) -> int:
        """An argument that is a number."""
        return int(str(self.step.payload[key]))

    def numbers(self, key: str) -> tuple[int, ...]:
        """An argument that is a list of numbers; empty where it is not there."""
        value = self.step.payload.get(key)
        return () if value is None else tuple(int(str(each)) for each in as_list(value))

    def flag(self, key: str) -> bool | None:
        """An argument that is true, false or left alone."""
        value = self.step.payload[key]
        return None if value is None else bool(value)

    def need(self, key: str) -> Need:
        """An argument that says what something takes."""
        return Need[self.text(key)]

    def look(self) -> tuple[ObservedGpus, Gpu]:
        """The node and the GPU as they are now; with the engine's word, so that holders have names.

        Raises:
            Problem: the GPU, its slices or its processes could not be read, or it is not there any more.
        """
        observed = read(self.context.look("gpu", "docker", "host"))
        return observed, refusals.readable(self.step, observed, self.uuid)

    def act(self, operation: str, **arguments: object) -> None:
        """One operation of the agent on the GPU.

        Raises:
            Problem: the node refused; says why, who holds the GPU, and what to do.
        """
        try:
            self.context.agent(operation, uuid=self.uuid, **arguments)
        except Refused as refused:
            observed, gpu = self.look()
            raise Problem(refusals.refused(self.step, refused, observed, gpu)) from refused

    def still_wanted(self, gpu: Gpu, slice_: str) -> Iterator[tuple[str, str]]:
        """(slice, profile) of this slice and those wanted ones that have no live instance of their profile yet."""
        live = [each.profile for each in gpu.instances] if isinstance(gpu.instances, tuple) else []
        for pair in _pairs(self.step.payload["wanted"]):
            if pair[0] != slice_ and pair[1] in live:
                live.remove(pair[1])
            else:
                yield pair


def _pairs(value: object) -> Iterator[tuple[str, str]]:
    for pair in value if isinstance(value, Sequence) else ():
        yield str(pair[0]), str(pair[1])
