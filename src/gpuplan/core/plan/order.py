"""Order: which step waits for which, from what each makes, uses, releases and frees."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from gpuplan.types.address import Address
from gpuplan.types.change import Change, Step
from gpuplan.types.diagnostic import Diagnostic, Problem


def predecessors(steps: Sequence[Step]) -> Mapping[str, frozenset[str]]:
    """For each step id, the ids of the steps that must have ended before it.

    Four rules, which know no kind: makes X before uses X and before what comes after X, releases X before frees X,
    frees X before makes X.
    """
    return {
        later.id: frozenset(
            earlier.id
            for earlier in steps
            if earlier is not later and (_precedes(earlier, later) or _meet(earlier.makes, later.after))
        )
        for later in steps
    }


def required_predecessors(steps: Sequence[Step]) -> Mapping[str, frozenset[str]]:
    """For each step id, those of the steps before it that must have been done, not only have ended."""
    return {
        later.id: frozenset(earlier.id for earlier in steps if earlier is not later and _precedes(earlier, later))
        for later in steps
    }


def order_steps(changes: Iterable[Change]) -> tuple[str, ...]:
    """The ids of all steps in an order that respects the rules, else as they were given.

    Raises:
        Problem: steps wait for one another in a circle; a fault of the rooms, never of the operator.
    """
    steps = [step for change in changes for step in change.steps]
    before = predecessors(steps)
    followers: dict[str, list[int]] = {}
    missing = {step.id: len(before[step.id]) for step in steps}
    for number, step in enumerate(steps):
        for earlier in before[step.id]:
            followers.setdefault(earlier, []).append(number)
    ready = [number for number, step in enumerate(steps) if not missing[step.id]]
    heapq.heapify(ready)
    ordered: list[str] = []
    while ready:
        step = steps[heapq.heappop(ready)]
        ordered.append(step.id)
        for number in followers.get(step.id, ()):
            missing[steps[number].id] -= 1
            if not missing[steps[number].id]:
                heapq.heappush(ready, number)
    if len(ordered) < len(steps):
        raise Problem(_circle([step for step in steps if step.id not in ordered]))
    return tuple(ordered)


def _precedes(earlier: Step, later: Step) -> bool:
    return _meet(earlier.makes, later.uses) or _meet(earlier.releases, later.frees) or _meet(earlier.frees, later.makes)


def _meet(some: Iterable[Address], others: Sequence[Address]) -> bool:
    return any(one.covers(other) or other.covers(one) for one in some for other in others)


def _circle(steps: Sequence[Step]) -> Diagnostic:
    names = ", ".join(step.id for step in steps)
    return Diagnostic(
        "Steps wait for one another in a circle",
        f"No order was found for these steps: {names}.",
        "This is a fault in gpuplan; please report it with the plan file.",
    )
