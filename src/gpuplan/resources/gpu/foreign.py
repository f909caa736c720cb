"""Slices that other plan files made on the node: neither ours nor free to be taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuplan.types.address import parse_address
from gpuplan.types.snapshot import Probe, ProbeError
from gpuplan.types.value import Json, as_object


@dataclass(frozen=True)
class Foreign:
    """A slice that another plan file remembers."""

    plan: str
    gpu: str
    """UUID of the GPU."""
    profile: str
    start: int


@dataclass(frozen=True)
class Others:
    """What the other plan files of a node remember."""

    slices: tuple[Foreign, ...] = ()
    error: ProbeError | None = None
    """Why not all of it is known; `slices` are then those that are."""

    def on(self, gpu: str) -> Sequence[Foreign]:
        """Those on the GPU of that UUID, whether or not they stand."""
        return [each for each in self.slices if each.gpu == gpu]

    def maker(self, gpu: str, profile: str, start: int) -> str:
        """The plan file that made the slice at that place; empty where none is known to."""
        return next((each.plan for each in self.on(gpu) if (each.profile, each.start) == (profile, start)), "")


def read_others(probe: Probe) -> Others:
    """The probe `others` of docs/snapshot.md; the record of one plan that cannot be read leaves the rest known."""
    if probe.error is not None:
        return Others(error=probe.error)
    if not isinstance(probe.value, Mapping):
        return Others(error=ProbeError("unexpected", "the answer is not in the form of docs/snapshot.md"))
    found: list[Foreign] = []
    error: ProbeError | None = None
    for plan, stated in probe.value.items():
        try:
            found.extend(_slices(plan, stated))
        except (KeyError, TypeError, ValueError) as fault:
            error = ProbeError(
                "bad_record", f"the record of the plan file {plan} is not readable ({_said(stated, fault)})"
            )
    return Others(tuple(found), error)


def _slices(plan: str, stated: Json) -> Iterator[Foreign]:
    for address, fact in as_object(as_object(stated)["remembered"]).items():
        known = as_object(fact)
        if parse_address(address).kind == "gpu" and "start" in known:
            yield Foreign(plan, str(known["gpu"]), str(known["profile"]), int(str(known["start"])))


def _said(stated: Json, fault: Exception) -> str:
    error = stated.get("error") if isinstance(stated, Mapping) else None
    return str(error.get("text")) if isinstance(error, Mapping) else repr(fault)
