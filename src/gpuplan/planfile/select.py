"""Which nodes and slices a pattern of the plan file means."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from gpuplan.planfile.schema import Mig, PlanFile, Slice
from gpuplan.planfile.stated import Nodes
from gpuplan.types.inventory import Host


def on_node(nodes: Nodes, host: Host) -> bool:
    """True where one of the patterns (node, group or glob) means this host."""
    return any(
        pattern in host.groups or pattern in ("all", host.name) or fnmatchcase(host.name, pattern)
        for pattern in patterns_of(nodes)
    )


def patterns_of(nodes: Nodes) -> tuple[str, ...]:
    """The patterns of a `nodes:` value."""
    return (nodes,) if isinstance(nodes, str) else nodes


def slices_of(mig: Mig | None) -> Iterator[tuple[str, Slice]]:
    """(name, section) of each slice of a `mig:` section in the order written; a count gives NAME[0] … NAME[n-1]."""
    if mig is None or isinstance(mig, str):
        return
    for name, stated in mig.items():
        each = Slice(profile=stated) if isinstance(stated, str) else stated
        names = [name] if each.count == 1 else [f"{name}[{number}]" for number in range(each.count)]
        yield from ((one, each) for one in names)


def device_names(mig: Mig | None) -> Iterator[str]:
    """What a container can be given of a GPU: its slices; NAME/0, NAME/1, … of one with several compute instances."""
    for name, stated in slices_of(mig):
        if len(stated.compute) > 1:
            yield from (f"{name}/{number}" for number in range(len(stated.compute)))
        else:
            yield name


def gpu_parts(plan: PlanFile, host: Host) -> tuple[str, ...]:
    """Everything that `gpus:` of a container may name on this node: ``a100-0``, ``a100-0/cls-a``, ``a100-0/b/1``.

    A GPU selected by `all` is known only on the node; it is listed as ``NAME`` and ``NAME[*]``.
    """
    found: list[str] = []
    for name, gpu in plan.gpus.items():
        if not on_node(gpu.nodes, host):
            continue
        whole = (name, f"{name}[*]") if gpu.select == "all" else (name,)
        for each in whole:
            found.append(each)
            found.extend(f"{each}/{part}" for part in device_names(gpu.mig))
    return tuple(found)
