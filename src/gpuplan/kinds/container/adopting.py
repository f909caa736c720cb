"""Adopting: a container of a wanted name that no plan file made, which is left alone as long as it is what is wanted.

No engine lets labels be put on a container that is there, so that taking one over means replacing it.
"""

from __future__ import annotations

from dataclasses import replace

from gpuplan.kinds.container.differences import Differences, differences
from gpuplan.kinds.container.read import Observed, leftover
from gpuplan.kinds.container.shape import VISIBLE, ContainerSpec
from gpuplan.kinds.container.steps import Wanted
from gpuplan.kinds.ground.devices import environment
from gpuplan.kinds.ground.docker import Live
from gpuplan.model.resource import Circumstances

_OURS = {VISIBLE: "void", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""Variables that gpuplan adds by itself: their effect is compared as devices, and another maker need not have them."""


def holder(name: str, observed: Observed) -> Live | None:
    """The container of that name that no plan file made."""
    return next((live for live in observed.containers if live.name == name and not live.plan and not leftover(live)), None)


def compared(wanted: Wanted, live: Live, observed: Observed, circumstances: Circumstances) -> Differences:
    """In what a container that somebody else made is not as the plan file wants it."""
    spec = _without_ours(wanted.spec, live)
    return differences(spec, None, live, wanted.bound, observed, circumstances)


def _without_ours(spec: ContainerSpec, live: Live) -> ContainerSpec:
    has = environment(live.config)
    env = {name: value for name, value in spec.env.items() if name in has or _OURS.get(name) != value}
    return replace(spec, env=env)
