"""The order of steps, from what each makes, uses, releases and frees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from gpuplan.types.address import Address
from gpuplan.types.change import Change, Step
from gpuplan.types.diagnostic import Diagnostic, Problem


def predecessors(steps: Sequence[Step]) -> Mapping[str, frozenset[str]]:
    """For each step id, the ids of the steps that must have ended before it begins (see `Step`)."""
    return {
        later.id: frozenset(
            earlier.id
            for earlier in steps
            if earlier is not later and (_precedes(earlier, later) or _overlap(earlier.makes, later.after))
        )
        for later in steps
    }


def required_predecessors(steps: Sequence[Step]) -> Mapping[str, frozenset[str]]:
    """For each step id, the predecessors that must have succeeded."""
    return {
        later.id: frozenset(earlier.id for earlier in steps if earlier is not later and _precedes(earlier, later))
        for later in steps
    }


def order_steps(changes: Iterable[Change]) -> tuple[str, ...]:
    """The ids of all steps, each after its predecessors, otherwise in the given order.

    Raises:
        Problem: steps wait for one another in a cycle, which is a bug of a kind.
    """
    steps = [step for change in changes for step in change.steps]
    before = predecessors(steps)
    followers: dict[str, list[int]] = {}
    waiting = {step.id: len(before[step.id]) for step in steps}
    for number, step in enumerate(steps):
        for earlier in before[step.id]:
            followers.setdefault(earlier, []).append(number)
    ready = [number for number, step in enumerate(steps) if not waiting[step.id]]
    heapify(ready)
    ordered: list[str] = []
    while ready:
        step = steps[heappop(ready)]
        ordered.append(step.id)
        for number in followers.get(step.id, ()):
            waiting[steps[number].id] -= 1
            if not waiting[steps[number].id]:
                heappush(ready, number)
    if len(ordered) < len(steps):
        raise Problem(_cycle([step for step in steps if step.id not in ordered]))
    return tuple(ordered)


def _precedes(earlier: Step, later: Step) -> bool:
    return (
        _overlap(earlier.makes, later.uses)
        or _overlap(earlier.releases, later.frees)
        or _overlap(earlier.frees, later.makes)
    )


def _overlap(left: Iterable[Address], right: Sequence[Address]) -> bool:
    return any(one.covers(other) or other.covers(one) for one in left for other in right)


def _cycle(steps: Sequence[Step]) -> Diagnostic:
    return Diagnostic(
        "Steps wait for one another in a cycle",
        f"No order exists for these steps: {', '.join(step.id for step in steps)}.",
        "This is a bug in gpuplan; please report it with the plan file.",
    )
