"""Checks of a plan file by itself, without inventory or nodes."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

from gpuplan.intent.checks.conflicts import conflicts
from gpuplan.intent.checks.containers import check_container
from gpuplan.intent.checks.models import check_models
from gpuplan.intent.planfile import PlanFile
from gpuplan.intent.select import patterns_of, slice_names
from gpuplan.model.diagnostic import Diagnostic
from gpuplan.model.inventory import Host

_PROFILE = re.compile(r"^[1-9]\d?g\.[1-9]\d{0,3}gb(?:[+-][a-z]+(?:\.[a-z]+)*)*$")
"""GPU instance profiles as `nvidia-smi mig -lgip` prints them: 3g.40gb, 1g.10gb+me, 1g.24gb+me.all, 2g.24gb-me."""
_COMPUTE = re.compile(r"^\d+c\.")
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
                detail = f"{kind}.{name}.nodes names no node."
                fix = "Write a node, a group, a glob, or a list of them."
                yield Diagnostic("Nodes are not stated", detail, fix, plan.where(kind, name, "nodes"))


def _profiles(plan: PlanFile) -> Iterator[Diagnostic]:
    for name, gpu in plan.gpus.items():
        for part, profile in {part.partition("[")[0]: profile for part, profile in slice_names(gpu.mig)}.items():
            if _PROFILE.match(profile):
                continue
            fix = "Write it as `nvidia-smi mig -lgip` prints it, such as 3g.40gb or 1g.10gb+me."
            if _COMPUTE.match(profile) and _PROFILE.match(_COMPUTE.sub("", profile)):
                fix = f"Write {_COMPUTE.sub('', profile)}: each slice gets one compute instance that fills it."
            detail = f"The slice {name}/{part} has the profile {profile!r}."
            yield Diagnostic("Not the name of a MIG profile", detail, fix, plan.where("gpus", name, "mig", part))


def _days(plan: PlanFile) -> Iterator[Diagnostic]:
    for number, rule in enumerate(plan.drift.ignore):
        try:
            datetime.date.fromisoformat(rule.until or "2000-01-01")
        except ValueError:
            where = plan.where("drift", "ignore", number, "until")
            yield Diagnostic("A day does not exist", f"{rule.until} is not in the calendar.", "", where)


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
