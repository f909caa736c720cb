"""Which nodes and slices a pattern of the plan file means."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from gpuplan.intent.planfile import Mig, Nodes, PlanFile
from gpuplan.model.inventory import Host


def on_node(nodes: Nodes, host: Host) -> bool:
    """True where one of the patterns (node, group or glob) means this host."""
    return any(
        pattern in host.groups or pattern in ("all", host.name) or fnmatchcase(host.name, pattern)
        for pattern in patterns_of(nodes)
    )


def patterns_of(nodes: Nodes) -> tuple[str, ...]:
    """The patterns of a `nodes:` value."""
    return (nodes,) if isinstance(nodes, str) else nodes


def slice_names(mig: Mig | None) -> Iterator[tuple[str, str]]:
    """(slice name, profile) of a `mig:` section in the order written; a count gives NAME[0] … NAME[n-1]."""
    if mig is None or isinstance(mig, str):
        return
    for name, stated in mig.items():
        if isinstance(stated, str):
            yield name, stated
        elif stated.count == 1:
            yield name, stated.profile
        else:
            yield from ((f"{name}[{number}]", stated.profile) for number in range(stated.count))


def gpu_parts(plan: PlanFile, host: Host) -> tuple[str, ...]:
    """Everything that `gpus:` of a container may name on this node: ``a100-0`` and ``a100-0/cls-a``.

    A GPU selected by `all` is known only on the node; it is listed as ``NAME`` and ``NAME[*]``.
    """
    found: list[str] = []
    for name, gpu in plan.gpus.items():
        if not on_node(gpu.nodes, host):
            continue
        whole = (name, f"{name}[*]") if gpu.select == "all" else (name,)
        for each in whole:
            found.append(each)
            found.extend(f"{each}/{part}" for part, _ in slice_names(gpu.mig))
    return tuple(found)
