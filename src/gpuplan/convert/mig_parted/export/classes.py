"""Classes of nodes: those on which a plan file means the same logical GPUs, and so one config of mig-parted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpuplan.planfile.schema import PlanFile
from gpuplan.planfile.select import on_node, patterns_of
from gpuplan.types.inventory import Host

_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class NodeClass:
    """Nodes that are alike."""

    name: str
    """Made of the patterns that mean them: a label of a Kubernetes node may hold it."""
    gpus: tuple[str, ...]
    """Names of the logical GPUs, in the order of the plan file."""
    hosts: tuple[str, ...] = ()
    """Their names; empty without an inventory."""


def classes(plan: PlanFile, hosts: Sequence[Host] | None) -> tuple[NodeClass, ...]:
    """The classes, in the order of the plan file. Without an inventory, GPUs with the same `nodes` are one class."""
    found: dict[tuple[str, ...], list[str]] = {}
    if hosts is None:
        together: dict[tuple[str, ...], list[str]] = {}
        for name, gpu in plan.gpus.items():
            together.setdefault(patterns_of(gpu.nodes), []).append(name)
        found = {tuple(names): [] for names in together.values()}
    else:
        for host in hosts:
            gpus = tuple(name for name, gpu in plan.gpus.items() if on_node(gpu.nodes, host))
            if gpus:
                found.setdefault(gpus, []).append(host.name)
    taken: list[str] = []
    for gpus in found:
        taken.append(_name(plan, gpus, taken))
    return tuple(NodeClass(name, gpus, tuple(found[gpus])) for name, gpus in zip(taken, found, strict=True))


def _name(plan: PlanFile, gpus: Sequence[str], taken: Sequence[str]) -> str:
    patterns = dict.fromkeys(pattern for name in gpus for pattern in patterns_of(plan.gpus[name].nodes))
    name = _UNNAMEABLE.sub("-", "-and-".join(patterns)).strip("-.") or "nodes"
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return next(each for each in (name, *numbered) if each not in taken)
