"""Limits a change set to the targets and kinds that the operator names."""

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
    """What a run is limited to."""

    targets: tuple[str, ...] = ()
    """Globs over addresses."""
    kinds: tuple[str, ...] = ()
    replace: tuple[str, ...] = ()
    """Globs over addresses: matching resources are replaced even if unchanged."""

    def of(self, node: NodeChanges) -> NodeChanges:
        """The part of a node's changes that is in scope."""
        return select_targets(select_kinds(node, self.kinds), self.targets)

    def has_node(self, name: str) -> bool:
        """Whether a resource of this node may be in scope; other nodes are not asked."""
        return not self.targets or any(fnmatchcase(name, target.partition("/")[0]) for target in self.targets)

    def has(self, address: Address) -> bool:
        """Whether a resource is in scope by itself, not only because a target needs it."""
        in_kinds = not self.kinds or address.kind in self.kinds
        return in_kinds and (not self.targets or matches(address, self.targets))

    @property
    def everything(self) -> bool:
        """Whether the run is not limited."""
        return not (self.targets or self.kinds)


EVERYTHING = Scope()


def select_targets(node: NodeChanges, targets: Sequence[str]) -> NodeChanges:
    """The changes that match one of the globs, with those they wait for and those they cause."""
    if not targets:
        return node
    kept = {change.address for change in node.changes if matches(change.address, targets)}
    while (required := _required(node.changes, kept)) - kept:
        kept |= required
    changes = tuple(change for change in node.changes if change.address in kept)
    part = replace(
        node,
        changes=changes,
        order=order_steps(changes),
        diagnostics=tuple(issue for issue in node.diagnostics if _is_about(issue.address, kept, targets)),
        unknown=tuple(part for part in node.unknown if _is_about(str(part.address), kept, targets)),
        resources=sum(matches(resource.address, targets) for resource in node.desired),
    )
    return without_unrelated_guards(part, kept)


def _is_about(text: str, kept: Collection[Address], targets: Sequence[str]) -> bool:
    """Whether an address (as text) is of a kept change, of a target, or of the node as a whole."""
    if text.count("/") < 2:
        return True
    address = parse_address(text)
    return (
        address.kind == "node"
        or matches(address, targets)
        or any(other.covers(address) or address.covers(other) for other in kept)
    )


def without_unrelated_guards(node: NodeChanges, kept: Collection[Address]) -> NodeChanges:
    """The node without the guards that do not concern the `kept` changes."""
    unmanaged = tuple(
        resource if _concerns(resource, kept) else replace(resource, guard="") for resource in node.unmanaged
    )
    return replace(node, unmanaged=unmanaged)


def _concerns(unmanaged: Unmanaged, kept: Collection[Address]) -> bool:
    blocked = [unmanaged.in_the_way_of] if unmanaged.in_the_way_of else []
    addresses = [unmanaged.address, *blocked]
    return any(address.covers(other) or other.covers(address) for address in addresses for other in kept)


def select_kinds(node: NodeChanges, kinds: Collection[str]) -> NodeChanges:
    """The changes of these kinds; all changes if `kinds` is empty.

    Unlike a target, a kind adds nothing else. A change that needs one of another kind becomes an error.
    """
    if not kinds:
        return node
    changes = tuple(change for change in node.changes if change.address.kind in kinds)
    return replace(
        node,
        changes=changes,
        order=order_steps(changes),
        unmanaged=tuple(
            unmanaged for unmanaged in node.unmanaged if (unmanaged.in_the_way_of or unmanaged.address).kind in kinds
        ),
        unknown=tuple(part for part in node.unknown if part.address.kind in (*kinds, "node")),
        diagnostics=(
            *(issue for issue in node.diagnostics if _kind(issue.address) in (*kinds, "")),
            *_missing_kinds(node.changes, kinds),
        ),
        rests_on={address: state for address, state in node.rests_on.items() if address.kind in (*kinds, "record")},
        resources=sum(resource.address.kind in kinds for resource in node.desired),
    )


def matches(address: Address, targets: Sequence[str]) -> bool:
    """Whether one of the globs matches the address."""
    return any(fnmatchcase(str(address), target) for target in targets)


def _required(changes: Sequence[Change], kept: set[Address]) -> set[Address]:
    steps = [step for change in changes for step in change.steps]
    owner = {step.id: step.address for step in steps}
    before = predecessors(steps)
    awaited = {owner[earlier] for step in steps if step.address in kept for earlier in before[step.id]}
    caused = {change.address for change in changes if change.cause in kept}
    return awaited | caused


def _kind(address: str) -> str:
    """The kind in an address (as text); empty for a node or an empty text."""
    return address.split("/")[1] if address.count("/") > 1 else ""


def _missing_kinds(changes: Sequence[Change], kinds: Collection[str]) -> Iterator[Diagnostic]:
    """Errors for changes that must wait for a change of another kind which interrupts something that is running."""
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
                    "A change needs a change of another kind",
                    f"{change.address} cannot change before {other.address}: {other.interrupts[0]}.",
                    f"Remove --only, or add --only {other.address.kind}.",
                    address=str(change.address),
                )
