"""Targets: the part of a change set that an operator names, with everything that it cannot do without."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from gpuplan.core.plan.order import order_steps, predecessors
from gpuplan.types.address import Address, parse_address
from gpuplan.types.change import Change, NodeChanges, Unmanaged
from gpuplan.types.diagnostic import Diagnostic


@dataclass(frozen=True)
class Scope:
    """What a run is confined to."""

    targets: tuple[str, ...] = ()
    """Globs over addresses."""
    kinds: tuple[str, ...] = ()
    replace: tuple[str, ...] = ()
    """Globs over addresses that are replaced even if unchanged."""

    def of(self, node: NodeChanges) -> NodeChanges:
        """The part of a node's changes that lies within."""
        return select_targets(select_kinds(node, self.kinds), self.targets)

    def has_node(self, name: str) -> bool:
        """True where something of this node may lie within: nothing is asked of the others."""
        return not self.targets or any(fnmatchcase(name, target.partition("/")[0]) for target in self.targets)

    def has(self, address: Address) -> bool:
        """True where a resource lies within; what a target takes along is not meant."""
        of_a_kind = not self.kinds or address.kind in self.kinds
        return of_a_kind and (not self.targets or matches(address, self.targets))

    @property
    def everything(self) -> bool:
        """True where nothing is left out."""
        return not (self.targets or self.kinds)


EVERYTHING = Scope()


def select_targets(node: NodeChanges, targets: Sequence[str]) -> NodeChanges:
    """The changes whose address matches one of the globs, those they wait for, and those they force."""
    if not targets:
        return node
    kept = {change.address for change in node.changes if matches(change.address, targets)}
    while (more := _entailed(node.changes, kept)) - kept:
        kept |= more
    changes = tuple(change for change in node.changes if change.address in kept)
    part = replace(
        node,
        changes=changes,
        order=order_steps(changes),
        diagnostics=tuple(each for each in node.diagnostics if _is_about(each.address, kept, targets)),
        unknown=tuple(each for each in node.unknown if _is_about(str(each.address), kept, targets)),
        resources=sum(matches(each.address, targets) for each in node.desired),
    )
    return without_unrelated_guards(part, kept)


def _is_about(text: str, kept: Collection[Address], targets: Sequence[str]) -> bool:
    """True where an address as text is of a resource that stays, or a target, or of the node as a whole."""
    if text.count("/") < 2:
        return True
    address = parse_address(text)
    return (
        address.kind == "node"
        or matches(address, targets)
        or any(each.covers(address) or address.covers(each) for each in kept)
    )


def without_unrelated_guards(node: NodeChanges, kept: Collection[Address]) -> NodeChanges:
    """The same node without the guards of what blocks nothing if only `kept` changes."""
    unmanaged = tuple(each if _concerns(each, kept) else replace(each, guard="") for each in node.unmanaged)
    return replace(node, unmanaged=unmanaged)


def _concerns(unmanaged: Unmanaged, kept: Collection[Address]) -> bool:
    """True where one of the changes that stay has to do with it; only then may its guard be left out."""
    concerned = [unmanaged.address, *([unmanaged.in_the_way_of] if unmanaged.in_the_way_of else [])]
    return any(one.covers(each) or each.covers(one) for one in concerned for each in kept)


def select_kinds(node: NodeChanges, kinds: Collection[str]) -> NodeChanges:
    """The part of a node's changes that is of these kinds; everything where none is named.

    Unlike a target it takes nothing else along. A change that cannot do without one of another kind becomes an error.
    """
    if not kinds:
        return node
    changes = tuple(change for change in node.changes if change.address.kind in kinds)
    return replace(
        node,
        changes=changes,
        order=order_steps(changes),
        unmanaged=tuple(each for each in node.unmanaged if (each.in_the_way_of or each.address).kind in kinds),
        unknown=tuple(each for each in node.unknown if each.address.kind in (*kinds, "node")),
        diagnostics=(
            *(each for each in node.diagnostics if _kind(each.address) in (*kinds, "")),
            *_left_out(node.changes, kinds),
        ),
        rests_on={address: each for address, each in node.rests_on.items() if address.kind in (*kinds, "record")},
        resources=sum(each.address.kind in kinds for each in node.desired),
    )


def matches(address: Address, targets: Sequence[str]) -> bool:
    """True where a glob means this address."""
    return any(fnmatchcase(str(address), target) for target in targets)


def _entailed(changes: Sequence[Change], kept: set[Address]) -> set[Address]:
    steps = [step for change in changes for step in change.steps]
    owner = {step.id: step.address for step in steps}
    before = predecessors(steps)
    awaited = {owner[one] for step in steps if step.address in kept for one in before[step.id]}
    forced = {change.address for change in changes if change.cause in kept}
    return awaited | forced


def _kind(address: str) -> str:
    """The kind in an address as text; empty where it names a node or nothing."""
    return address.split("/")[1] if address.count("/") > 1 else ""


def _left_out(changes: Sequence[Change], kinds: Collection[str]) -> Iterator[Diagnostic]:
    """What interrupts something that runs has to come first; what is already stopped blocks nothing."""
    before = predecessors([step for change in changes for step in change.steps])
    for change in changes:
        if change.address.kind not in kinds:
            continue
        awaited = {name for step in change.steps for name in before[step.id]}
        for other in changes:
            if other.address.kind in kinds or not other.interrupts:
                continue
            if any(step.id in awaited for step in other.steps):
                yield Diagnostic(
                    "A change needs another kind",
                    f"{change.address} cannot change before {other.address} does: {other.interrupts[0]}.",
                    f"Leave out --only, or add --only {other.address.kind}.",
                    address=str(change.address),
                )
