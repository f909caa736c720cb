"""Targets: the part of a change set that an operator names, with everything that it cannot do without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from gpuplan.flow.order import in_order, waits_for
from gpuplan.model.address import Address
from gpuplan.model.change import Change
from gpuplan.model.changeset import NodeChanges


def only(node: NodeChanges, targets: Sequence[str]) -> NodeChanges:
    """The changes whose address matches one of the globs, those they wait for, and those they force."""
    if not targets:
        return node
    kept = {change.address for change in node.changes if matches(change.address, targets)}
    while (more := _entailed(node.changes, kept)) - kept:
        kept |= more
    changes = tuple(change for change in node.changes if change.address in kept)
    unmanaged = tuple(
        each if each.in_the_way_of is None or matches(each.in_the_way_of, targets) else replace(each, guard="")
        for each in node.unmanaged
    )
    return replace(node, changes=changes, order=in_order(changes), unmanaged=unmanaged)


def matches(address: Address, targets: Sequence[str]) -> bool:
    """True where a glob means this address."""
    return any(fnmatchcase(str(address), target) for target in targets)


def _entailed(changes: Sequence[Change], kept: set[Address]) -> set[Address]:
    steps = [step for change in changes for step in change.steps]
    owner = {step.id: step.address for step in steps}
    before = waits_for(steps)
    awaited = {owner[one] for step in steps if step.address in kept for one in before[step.id]}
    forced = {change.address for change in changes if change.cause in kept}
    return awaited | forced
