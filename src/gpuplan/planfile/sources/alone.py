"""Checks the models of a plan file without an inventory, as far as that can be: on nodes made up from its patterns."""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.planfile.expand import Placed, containers_on
from gpuplan.planfile.schema import PlanFile
from gpuplan.planfile.select import patterns_of
from gpuplan.planfile.sources.source import judged
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.inventory import Host


def check_models(plan: PlanFile) -> tuple[tuple[Diagnostic, ...], int]:
    """What the checks say of every model on every server, each thing once, and how much was silenced.

    A pattern stands for a node of that name. A server whose GPUs or `each` need the groups of an inventory is left out.
    """
    found: dict[Diagnostic, None] = {}
    silenced: dict[tuple[str, str], int] = {}
    for host, placed in servers_alone(plan):
        told, held = judged(plan, host, placed)
        found.update(dict.fromkeys(told))
        silenced[str(placed.path[1]), placed.name] = held
    return tuple(found), sum(silenced.values())


def servers_alone(plan: PlanFile) -> Iterator[tuple[Host, Placed]]:
    """Every model server, on the nodes made up."""
    stated = [container.nodes for container in plan.containers.values() if container.triton is not None]
    for pattern in dict.fromkeys(pattern for nodes in stated for pattern in patterns_of(nodes)):
        host = Host(pattern)
        yield from ((host, placed) for placed in containers_on(plan, host) if placed.container.triton is not None)
