"""Steps of a crew run side by side: whatever the interleaving, nothing begins before what it waits for is done."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.core.apply import steps as flow_steps
from gpuplan.core.apply.steps import MAX_PARALLEL, StepRunner
from gpuplan.core.plan.order import order_steps, predecessors
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, NodeChanges, Step, Verb
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem
from gpuplan.types.outcome import Event, Status, StepEnded, StepOutcome, StepStarted

BROKEN = Problem(Diagnostic("it broke"))


class Stage:
    """A runner whose steps do what the test says, and a record of what happened in which order."""

    def __init__(self, changes: Sequence[Change]) -> None:
        order = order_steps(changes)
        self.steps = {step.id: step for change in changes for step in change.steps}
        self.before = predecessors(tuple(self.steps.values()))
        self.events: list[Event] = []
        self.stop = threading.Event()
        self.at_once = 0
        self._running: set[str] = set()
        self._turn = threading.Lock()
        self._node = NodeChanges("n", tuple(changes), order)

    def run(self, act: Any) -> dict[str, StepOutcome]:
        """Run all steps; `act` is what the apply door does."""

        def door(step: Step, apply_context: Any) -> tuple[()]:
            del apply_context
            with self._turn:
                self._running.add(step.id)
                self.at_once = max(self.at_once, len(self._running))
                assert len({self.steps[name].concurrency_group for name in self._running}) == 1
                assert step.concurrency_group or len(self._running) == 1
            try:
                act(step)
            finally:
                with self._turn:
                    self._running.discard(step.id)
            return ()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(flow_steps, "_APPLY", {"x": door})
            nothing: Any = _Nothing()
            runner = StepRunner(
                self._node, lambda *_: nothing, nothing, nothing, self._hear, self.stop, lambda text: text
            )
            outcomes = runner.run()
        assert [each.step for each in outcomes] == list(self._node.order)
        return {each.step: each for each in outcomes}

    @property
    def running(self) -> int:
        """How many steps run now."""
        with self._turn:
            return len(self._running)

    def _hear(self, event: Event) -> None:
        with self._turn:
            self.events.append(event)


class _Nothing:
    """A journal, a ledger and hands that take everything."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def address(number: int) -> Address:
    return Address("n", "x", f"r{number}")


def change(number: int, uses: Sequence[int] = (), crew: str = "c", **more: Any) -> Change:
    here = address(number)
    used = tuple(map(address, uses))
    step = Step("make", here, Verb.CREATE, f"make {number}", makes=(here,), uses=used, concurrency_group=crew, **more)
    return Change(here, Action.CREATE, steps=(step,))


def test_a_crew_runs_side_by_side_and_no_more_than_a_few() -> None:
    stage = Stage([change(number) for number in range(MAX_PARALLEL * 2)])
    meeting = threading.Barrier(MAX_PARALLEL, timeout=20)
    outcomes = stage.run(lambda _: meeting.wait())
    assert {each.status for each in outcomes.values()} == {Status.DONE}
    assert stage.at_once == MAX_PARALLEL


def test_steps_without_a_crew_and_of_another_one_wait() -> None:
    stage = Stage([change(0, crew=""), change(1), change(2, crew="d"), change(3), change(4, crew=""), change(5)])
    meeting = threading.Barrier(3, timeout=20)
    outcomes = stage.run(lambda step: meeting.wait() if step.concurrency_group == "c" else None)
    assert {each.status for each in outcomes.values()} == {Status.DONE}
    assert stage.at_once == 3


def test_a_failure_stops_only_what_waits_for_it() -> None:
    stage = Stage([change(0), change(1), change(2, uses=[0]), change(3, uses=[1])])

    def act(step: Step) -> None:
        if step.address == address(0):
            raise BROKEN

    outcomes = stage.run(act)
    assert [each.status for each in outcomes.values()] == [Status.FAILED, Status.DONE, Status.SKIPPED, Status.DONE]


def test_what_comes_after_one_that_failed_is_done_all_the_same() -> None:
    stage = Stage([change(1, after=(address(0),)), change(0), change(2, uses=[1])])

    def act(step: Step) -> None:
        if step.address == address(0):
            raise BROKEN

    outcomes = stage.run(act)
    assert [each.status for each in outcomes.values()] == [Status.FAILED, Status.DONE, Status.DONE]
    assert next(iter(outcomes)) == "n/x/r0:make"


def test_one_that_bears_few_beside_it_has_no_more() -> None:
    changes = [change(number, max_parallel=2 if number == 1 else 0) for number in range(6)]
    stage = Stage(changes)
    seen: dict[int, int] = {}

    def act(step: Step) -> None:
        number = int(step.address.name[1:])
        threading.Event().wait(0.02)
        seen[number] = stage.running

    stage.run(act)
    assert seen[1] <= 2
    assert sorted(seen) == list(range(6))
    one_by_one = Stage([change(number, max_parallel=1) for number in range(4)])
    one_by_one.run(lambda _: None)
    assert one_by_one.at_once == 1


def test_an_interrupt_lets_what_runs_end_and_begins_nothing() -> None:
    stage = Stage([change(number) for number in range(MAX_PARALLEL + 2)])
    meeting = threading.Barrier(MAX_PARALLEL, action=stage.stop.set, timeout=20)
    outcomes = list(stage.run(lambda _: meeting.wait()).values())
    assert [each.status for each in outcomes] == [Status.DONE] * MAX_PARALLEL + [Status.SKIPPED] * 2
    assert outcomes[-1].transcript == ("skipped: interrupted",)


def replacement(number: int, slot: int) -> Change:
    """A resource that is stopped, so that its slot can be made anew, and then made anew itself."""
    here, there = address(number), address(slot)
    stop = Step("stop", here, Verb.UPDATE, f"stop {number}", releases=(there,), frees=(here,))
    make = Step("replace", here, Verb.UPDATE, f"replace {number}", makes=(here,), uses=(there,))
    return Change(here, Action.REPLACE, steps=(stop, make))


def test_an_interrupt_lets_a_replacement_that_has_stopped_something_come_to_its_end() -> None:
    slot = Step("slot", address(9), Verb.UPDATE, "make the slot anew", makes=(address(9),), frees=(address(9),))
    slots = Change(address(9), Action.UPDATE, steps=(slot,))
    stage = Stage([replacement(0, 9), slots, replacement(1, 8), change(2)])
    outcomes = stage.run(lambda step: stage.stop.set() if step.title == "stop 0" else None)
    done = {name for name, each in outcomes.items() if each.status is Status.DONE}
    assert done == {"n/x/r0:stop", "n/x/r9:slot", "n/x/r0:replace"}


def test_an_interrupt_before_a_replacement_begins_keeps_it_from_beginning() -> None:
    stage = Stage([change(2, crew=""), replacement(0, 9)])
    outcomes = stage.run(lambda _: stage.stop.set())
    assert [each.status for each in outcomes.values()] == [Status.DONE, Status.SKIPPED, Status.SKIPPED]


def test_a_lost_connection_ends_all() -> None:
    stage = Stage([change(number) for number in range(MAX_PARALLEL + 1)])
    meeting = threading.Barrier(MAX_PARALLEL, timeout=20)

    def act(_: Step) -> None:
        meeting.wait()
        raise ConnectionLost(Diagnostic("gone"))

    outcomes = list(stage.run(act).values())
    assert [each.status for each in outcomes] == [Status.FAILED] * MAX_PARALLEL + [Status.SKIPPED]
    assert outcomes[-1].transcript == ("skipped: the connection to the node was lost",)


@given(
    st.lists(st.tuples(st.sets(st.integers(0, 9), max_size=3), st.sampled_from(["", "c", "c", "c", "d"])), max_size=10),
    st.sets(st.integers(0, 9), max_size=2),
    st.lists(st.integers(0, 3), min_size=10, max_size=10),
)
def test_nothing_begins_before_what_it_waits_for_is_done(
    resources: list[tuple[set[int], str]], broken: set[int], turns: list[int]
) -> None:
    changes = [change(n, [m for m in uses if m < n], crew) for n, (uses, crew) in enumerate(resources)]
    stage = Stage(changes)

    def act(step: Step) -> None:
        number = int(step.address.name[1:])
        threading.Event().wait(turns[number] / 1000)
        if number in broken:
            raise BROKEN

    outcomes = stage.run(act)
    done: set[str] = set()
    for event in stage.events:
        if isinstance(event, StepStarted):
            assert stage.before[event.step] <= done
        elif isinstance(event, StepEnded) and event.outcome.status is Status.DONE:
            done.add(event.outcome.step)
    for name, outcome in outcomes.items():
        hindered = not stage.before[name] <= done
        assert (outcome.status is Status.SKIPPED) == hindered
        assert hindered or (outcome.status is Status.FAILED) == (int(stage.steps[name].address.name[1:]) in broken)
