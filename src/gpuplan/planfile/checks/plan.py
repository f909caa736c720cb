"""Checks of a plan file by itself, without inventory or nodes."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

from gpuplan.nvidia.mig_names import parse_profile
from gpuplan.planfile.checks.containers import check_container
from gpuplan.planfile.checks.models import check_models
from gpuplan.planfile.checks.nodes import conflicts
from gpuplan.planfile.expand import patterns_of, slices_of
from gpuplan.planfile.schema import PlanFile
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.inventory import Host

_NAME = re.compile(r"^[A-Za-z0-9_.-]+$")


def check_plan(plan: PlanFile) -> tuple[Diagnostic, ...]:
    """Everything that can be known without inventory and nodes."""
    return (
        *_patterns(plan),
        *_profiles(plan),
        *(fault for name, container in plan.containers.items() for fault in check_container(plan, name, container)),
        *check_models(plan),
        *_days(plan),
        *_conflicts(plan),
    )


def _patterns(plan: PlanFile) -> Iterator[Diagnostic]:
    for kind, sections in (("gpus", plan.gpus), ("containers", plan.containers)):
        for name, section in sections.items():
            if not section.nodes or not all(patterns_of(section.nodes)):
                detail = f"{kind}.{name}.nodes is empty."
                fix = "Write a node, a group, a glob, or a list of them."
                yield Diagnostic("Missing nodes", detail, fix, plan.where(kind, name, "nodes"))


def _profiles(plan: PlanFile) -> Iterator[Diagnostic]:
    for name, gpu in plan.gpus.items():
        for part, stated in {part.partition("[")[0]: stated for part, stated in slices_of(gpu.mig)}.items():
            if stated.profile is None:
                continue
            parsed, where = parse_profile(stated.profile), plan.where("gpus", name, "mig", part)
            if parsed is None:
                fix = "Write it as `nvidia-smi mig -lgip` prints it, such as 3g.40gb or 1g.10gb+me."
                detail = f"The slice {name}/{part} has the profile {stated.profile!r}."
                yield Diagnostic("Invalid MIG profile", detail, fix, where)
            elif parsed.compute is not None and stated.compute:
                detail = (
                    f"{name}/{part} sets compute instances both in its profile {stated.profile!r} and under compute."
                )
                fix = f"Write profile: {stated.profile.partition('c.')[2]}, and all of them under compute."
                yield Diagnostic("Compute instances set twice", detail, fix, where)


def _days(plan: PlanFile) -> Iterator[Diagnostic]:
    for number, rule in enumerate(plan.drift.ignore):
        try:
            datetime.date.fromisoformat(rule.until or "2000-01-01")
        except ValueError:
            where = plan.where("drift", "ignore", number, "until")
            yield Diagnostic("Invalid date", f"{rule.until} does not exist.", "", where)


def _conflicts(plan: PlanFile) -> Iterator[Diagnostic]:
    """What stands on one node together whatever the inventory says: everything that states the same node or group."""
    seen: set[Diagnostic] = set()
    stated = [*(gpu.nodes for gpu in plan.gpus.values()), *(each.nodes for each in plan.containers.values())]
    for pattern in dict.fromkeys(pattern for nodes in stated for pattern in patterns_of(nodes)):
        if _NAME.match(pattern):
            for fault in conflicts(plan, Host(pattern)):
                if fault not in seen:
                    seen.add(fault)
                    yield fault
