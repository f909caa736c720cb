"""Has the load of a part see to what is composed of it or calls it: whatever that loses is brought back with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from graphlib import TopologicalSorter

from gpuplan.types.address import Address
from gpuplan.types.change import Change, Step
from gpuplan.types.resource import Desired


def with_dependents(
    changes: Mapping[Address, Change], desired: Sequence[Desired], unread: Set[Address]
) -> dict[Address, Change]:
    """The same changes; each wanted model without one of its own is verified by the last of its parts that is loaded.

    That step waits for the other parts, so that nobody verifies while another part is on its way; where one of them
    does not load, it goes on all the same. Models that are `unread` are not touched.
    """
    needs = {each.address: tuple(need for need in each.needs if need.kind == "model") for each in desired}
    order = [address for address in TopologicalSorter(needs).static_order() if address in needs]
    loads = [address for address in order if address in changes and _load(changes[address]) is not None]
    verified: dict[Address, list[Desired]] = {}
    others: dict[Address, set[Address]] = {}
    by_address = {each.address: each for each in desired}
    for address in order:
        parts = _below(address, needs)
        loaded = [one for one in loads if one in parts]
        if loaded and address not in changes and address not in unread:
            verified.setdefault(loaded[-1], []).append(by_address[address])
            others.setdefault(loaded[-1], set()).update(loaded[:-1])
    return {
        address: _with(change, verified[address], others[address]) if address in verified else change
        for address, change in changes.items()
    }


def _below(address: Address, needs: Mapping[Address, Sequence[Address]]) -> Set[Address]:
    """Everything that a model needs, directly or not."""
    found: set[Address] = set()
    fresh = set(needs.get(address, ()))
    while fresh:
        found |= fresh
        fresh = {need for one in fresh for need in needs.get(one, ())} - found
    return found


def _load(change: Change) -> Step | None:
    """The step that loads a model anew, if the change has one."""
    return next((step for step in change.steps if step.name == "load" and change.disturbs), None)


def _with(change: Change, dependents: Sequence[Desired], others: Set[Address]) -> Change:
    step = _load(change)
    if step is None:
        return change
    verify = [{**each.spec, **({} if each.proof is None else {"smoke": each.proof})} for each in dependents]
    after = tuple(sorted(others - set(step.uses)))
    told = replace(step, arguments={**step.arguments, "verify": verify}, after=after)
    return replace(change, steps=tuple(told if one is step else one for one in change.steps))
