"""Findings: what a drift check says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuplan.types.address import Address
from gpuplan.types.change import Change, Unmanaged, Unreadable
from gpuplan.types.diagnostic import Diagnostic


@dataclass(frozen=True)
class Drift:
    """One thing that changed on a node since the last apply, with what follows from it."""

    change: Change
    dependants: tuple[Address, ...] = ()
    """Resources that are wrong only because of this one."""


@dataclass(frozen=True)
class NodeFindings:
    """What one node's check found; all empty = in sync."""

    node: str
    drift: tuple[Drift, ...] = ()
    unmanaged: tuple[Unmanaged, ...] = ()
    """What appeared since the last apply and is not of this plan file, and whatever of it sees its GPUs."""
    pending: tuple[Address, ...] = ()
    """Resources whose plan file changed since the last apply, or a secret that it refers to."""
    rotated: tuple[Change, ...] = ()
    """Of the pending ones, those that differ in nothing but secrets which were rotated."""
    unknown: tuple[Unreadable, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    suppressed: int = 0
    """How many findings an ignore rule of the plan file held back."""
    busy: str = ""
    """Who is applying to the node right now."""


@dataclass(frozen=True)
class Report:
    """A whole drift check."""

    plan: str
    checked_at: str
    seconds: float
    nodes: Sequence[NodeFindings]
    diagnostics: tuple[Diagnostic, ...] = ()
    """What is wrong with the check as a whole: a secret that is not to be had here."""
