"""Targets: the part of a change set that an operator names, with everything that it cannot do without."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from gpuplan.flow.order import in_order, waits_for
from gpuplan.model.address import Address
from gpuplan.model.change import Change, Unmanaged
from gpuplan.model.changeset import NodeChanges


def only(node: NodeChanges, targets: Sequence[str]) -> NodeChanges:
    """The changes whose address matches one of the globs, those they wait for, and those they force."""
    if not targets:
        return node
    kept = {change.address for change in node.changes if matches(change.address, targets)}
    while (more := _entailed(node.changes, kept)) - kept:
        kept |= more
    changes = tuple(change for change in node.changes if change.address in kept)
    return unguarded(replace(node, changes=changes, order=in_order(changes)), kept)


def unguarded(node: NodeChanges, kept: Collection[Address]) -> NodeChanges:
    """The same node without the guards of what is in nobody's way as long as only `kept` changes."""
    unmanaged = tuple(each if _concerns(each, kept) else replace(each, guard="") for each in node.unmanaged)
    return replace(node, unmanaged=unmanaged)


def _concerns(stranger: Unmanaged, kept: Collection[Address]) -> bool:
    """True where one of the changes that stay has to do with it; only then may its guard be left out."""
    concerned = [stranger.address, *([stranger.in_the_way_of] if stranger.in_the_way_of else [])]
    return any(one.covers(each) or each.covers(one) for one in concerned for each in kept)


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
