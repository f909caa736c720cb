"""Faults that a simulated node can have, so that rehearsals and tests see how failing hardware behaves.

In the inventory, `gpuplan_simulated: {faults: [...]}` holds any of:

    {refuse: "no route to host"}       connecting fails
    {hang: gpu}                        what the probe asks (host, gpu, docker or triton) never answers
    {docker: absent} | {docker: refused}   there is no engine socket, or nothing answers on it
    {drop_after: 3}                    the connection breaks after the third change; its answer is lost
    {without_effect: mig.create}       reports success and does nothing: mig.set_mode, mig.create, mig.destroy,
                                       gpu.reset, gpu.set, service.stop,
                                       docker.create, docker.start, docker.remove, …, triton.load, triton.unload
    {infer: NAME, says: "out of memory"}   each inference of this model fails so
    {infer: NAME, hangs: true}             it never answers
    {nvml: nvmlDeviceSetMigMode, code: 19}   the NVML function fails with this code
    {nvml: nvmlDeviceGetName, code: 15, gpu: 3}   it fails for one GPU; `code: hang` never answers
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuplan.simulator.state import items, mapping
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.inventory import Host

_HANGS = ("host", "gpu", "docker", "triton")
_KEYS = ("refuse", "hang", "docker", "drop_after", "without_effect", "infer", "nvml", "code", "gpu", "says", "hangs")


@dataclass(frozen=True)
class NvmlFault:
    """A function of NVML that fails with a code, or never answers (None), for one GPU or for all."""

    function: str
    code: int | None
    gpu: int | None = None


@dataclass
class Faults:
    """What a node does wrong; everything empty = a healthy one."""

    refuse: str = ""
    hang: set[str] = field(default_factory=set)
    docker: str = ""
    drop_after: int | None = None
    """Changes until the connection breaks."""
    without_effect: set[str] = field(default_factory=set)
    nvml: list[NvmlFault] = field(default_factory=list)
    infer: dict[str, str | None] = field(default_factory=dict)
    """Model → what its server says to each inference; None = it never answers."""


def faults_of(host: Host) -> Faults:
    """The faults that the inventory tells of.

    Raises:
        Problem: one of them is not a fault that a node can have.
    """
    faults = Faults()
    for stated in map(mapping, items(host.simulated.get("faults", []))):
        if not _take(faults, stated):
            raise Problem(
                Diagnostic(
                    "Unknown fault of a simulated node",
                    f"gpuplan_simulated.faults holds {stated!r}.",
                    f"Each fault is one of {', '.join(_KEYS[:-4])}",
                    where=host.where,
                    address=host.name,
                )
            )
    return faults


def _take(faults: Faults, stated: dict[str, object]) -> bool:
    match stated:
        case {"refuse": str() | True as why}:
            faults.refuse = why if isinstance(why, str) else "connection refused"
        case {"hang": str() as probe} if probe in _HANGS:
            faults.hang.add(probe)
        case {"docker": "absent" | "refused" as how}:
            faults.docker = str(how)
        case {"drop_after": int() as changes}:
            faults.drop_after = changes
        case {"without_effect": str() as operation}:
            faults.without_effect.add(operation)
        case {"infer": str() as model, "says": str() as words}:
            faults.infer[model] = words
        case {"infer": str() as model, "hangs": True}:
            faults.infer[model] = None
        case {"nvml": str() as function, "code": int() | "hang" as code}:
            gpu = stated.get("gpu")
            number = gpu if isinstance(gpu, int) else None
            faults.nvml.append(NvmlFault(function, code if isinstance(code, int) else None, number))
        case _:
            return False
    return True
