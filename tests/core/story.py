"""Stories as files: a plan, a simulated node, and runs one after the other, each with what it must come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Run:
    """One apply: what goes before it, and what must be true after it. None is not looked at."""

    exit: str
    plan: Mapping[str, Any] | None = None
    """Takes the place of the plan file, from this run on."""
    reboot: bool = False
    allow: Sequence[str] = ()
    faults: Sequence[Mapping[str, Any]] = ()
    stubborn: Sequence[str] = ()
    """Services whose stop comes to its end only after the time for it is up."""
    planned: Mapping[str, str] | None = None
    """Every change by its address without the node → its sign."""
    steps: Mapping[str, str] | None = None
    """Every step by its id without the node → how it ended."""
    told: Sequence[str] = ()
    """One piece of text for each thing that was told, in its order."""
    slices: Sequence[str] | None = None
    services: Mapping[str, bool] | None = None
    """Service → it runs."""
    started: Sequence[str] | None = None
    """Services that were told to start, in their order."""
    untouched: Sequence[str] = ()
    """Containers that are the same and in the same state as before."""
    then_lock_free: bool = False
    empty_plan: bool | None = None


@dataclass(frozen=True)
class Story:
    """One file."""

    about: str
    plan: Mapping[str, Any]
    simulated: Mapping[str, Any]
    runs: Sequence[Run] = field(default_factory=list)


def load(file: Path) -> Story:
    """A story; a key that it cannot have is refused, and so is a story without a run."""
    text = _checked(Story, yaml.safe_load(file.read_text("utf-8")), file.name)
    runs = [Run(**_checked(Run, run, f"{file.name}, run {at}")) for at, run in enumerate(text.pop("runs", ()), 1)]
    if not runs:
        raise ValueError(f"{file.name}: a story without a run")
    return Story(**text, runs=runs)


def _checked(shape: type, stated: dict[str, Any], where: str) -> dict[str, Any]:
    unknown = set(stated) - {each.name for each in fields(shape)}
    if unknown:
        raise ValueError(f"{where}: unknown keys {sorted(unknown)}")
    return stated
