"""A plan file against an inventory."""

from __future__ import annotations

from gpuplan.planfile.checks import check_nodes
from gpuplan.types.diagnostic import Severity
from gpuplan.types.inventory import Host, Inventory
from tests.plan_files import PlanOf

HOSTS = (
    *(Host(f"gpu-a{number}", groups=("a100",)) for number in range(1, 6)),
    Host("gpu-h1", groups=("h100",)),
    Host("gpu-e1", groups=("every",)),
)
FLEET = Inventory(HOSTS, {"all": (), "a100": (), "h100": (), "every": ()})
GPUS = """
gpus:
  g: { nodes: a100, select: { index: 0 }, mig: { s: { profile: 1g.10gb, count: 2 } } }
  e: { nodes: every, select: all, mig: { s: 1g.10gb } }
"""


def told(plan_of: PlanOf, text: str) -> list[tuple[str, str]]:
    return [(one.summary, one.detail) for one in check_nodes(plan_of(GPUS + text), FLEET)]


def test_what_fits_is_not_told(plan_of: PlanOf) -> None:
    text = """
containers:
  one: { nodes: gpu-a*, image: x, gpus: ["g/s[1]"] }
  two: { nodes: every, image: x, gpus: ["e[3]/s"] }
  three: { nodes: every, image: x, gpus: ["e[*]/s"] }
  four: { nodes: a100, image: x, each: g/s* }
"""
    assert told(plan_of, text) == []


def test_patterns_that_mean_no_node(plan_of: PlanOf) -> None:
    plan = plan_of(GPUS + "containers: { c: { nodes: [gpu-x*, a10, h100], image: x } }\n")
    glob, name = check_nodes(plan, FLEET)
    assert (glob.severity, name.severity) == (Severity.WARNING, Severity.ERROR)
    assert name.detail == "containers.c is for 'a10', which matches no node or group of the inventory."
    assert name.fix == "Did you mean a100?"
    assert (name.where, glob.where) == (
        plan.where("containers", "c", "nodes", 1),
        plan.where("containers", "c", "nodes", 0),
    )


def test_gpus_of_other_nodes(plan_of: PlanOf) -> None:
    text = """
containers:
  c: { nodes: [a100, h100], image: x, gpus: ["g/s[0]"] }
  d: { nodes: all, image: x, each: g/s* }
"""
    assert told(plan_of, text) == [
        ("GPU is on other nodes", "c uses g/s[0], which is not on all of its nodes (gpu-h1)."),
        ("each matches no slice", "'g/s*' of d matches no slice on some of its nodes (gpu-h1)."),
        ("each matches no slice", "'g/s*' of d matches no slice on some of its nodes (gpu-e1)."),
    ]


def test_conflicts_that_only_the_inventory_shows_are_told_once(plan_of: PlanOf) -> None:
    text = """
  twin: { nodes: gpu-a*, select: { index: 0 } }
containers:
  one: { nodes: gpu-a*, image: x, ports: ["80:80"] }
  two: { nodes: a100, image: x, ports: ["80:80"] }
"""
    assert told(plan_of, text) == [
        (
            "Two names for one GPU",
            "g and twin both select index 0 on the same nodes (gpu-a1, gpu-a2, gpu-a3 and 2 more).",
        ),
        ("Host port conflict", "one and two both publish 80/tcp on the node."),
    ]
