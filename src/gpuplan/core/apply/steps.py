"""Steps: run one node's steps in order, those of a crew side by side; what waits for a failed one is skipped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from types import TracebackType
from typing import Generic, Self, TypeVar

from gpuplan.core.apply.record import Journal, RecordKeeper
from gpuplan.core.plan.order import predecessors, required_predecessors
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.kinds import KINDS
from gpuplan.secrets.redact import Redactor, redact_diagnostic
from gpuplan.types.change import Action, NodeChanges, Step
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem, internal_error
from gpuplan.types.outcome import Amount, Listener, Status, StepEnded, StepOutcome, StepProgress, StepStarted

# A crew: the steps of a node that run side by side, a few at a time, in threads of their own.

MAX_PARALLEL = 4
"""Steps at once. A model server loads as many at a time (tritonserver --model-load-thread-count), and each load holds
one of its eight HTTP threads, of which half are left for inference (--http-thread-count)."""

Done = TypeVar("Done")


class ConcurrentSteps(Generic[Done]):
    """Work under way, by name; use it as a context, which waits for what still runs."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(MAX_PARALLEL, thread_name_prefix=name)
        self._running: dict[Future[Done], tuple[str, int]] = {}
        self._crew = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()

    @property
    def idle(self) -> bool:
        """True where nothing runs."""
        return not self._running

    def takes(self, crew: str, abreast: int = 0) -> bool:
        """True where a step of that crew may begin beside what runs; it and each of those bear so many at once."""
        most = min(
            each or MAX_PARALLEL for each in (MAX_PARALLEL, abreast, *(bears for _, bears in self._running.values()))
        )
        return bool(crew) and len(self._running) < most and (self.idle or crew == self._crew)

    def begin(self, crew: str, name: str, work: Callable[[], Done], abreast: int = 0) -> None:
        """Begin a piece of work that the crew `takes`."""
        self._crew = crew
        self._running[self._pool.submit(work)] = (name, abreast)

    def ended(self) -> tuple[tuple[str, Done], ...]:
        """Wait until something ends; what has ended, with what came of it. Nothing at once where nothing runs."""
        if self.idle:
            return ()
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        return tuple((self._running.pop(each)[0], each.result()) for each in done)


_APPLY = {kind: room.apply for room in KINDS for kind in (room.name, *room.companion_kinds)}


class StepRunner:
    """Runs the steps of one node.

    A step begins once all that it waits for has ended: those that make what it uses, and the earlier ones of its own
    resource. Which step begins, and what is written down of its end, is decided in the one thread that calls `run`.
    """

    def __init__(
        self,
        node: NodeChanges,
        context: Callable[[Callable[[str], None], Callable[[str, Amount], None]], ApplyContext],
        journal: Journal,
        keeper: RecordKeeper,
        listen: Listener,
        stop: threading.Event,
        redact: Redactor,
    ) -> None:
        self._node = node
        self._hands = context
        self._journal = journal
        self._keeper = keeper
        self._listen = listen
        self._stop = stop
        self._redact = redact
        self._lost = False
        self._changes = {step.id: change for change in node.changes for step in change.steps}
        self._steps = {step.id: step for change in node.changes for step in change.steps}
        self._before = predecessors(tuple(self._steps.values()))
        self._rests_on = required_predecessors(tuple(self._steps.values()))
        self._desired = {each.address: each for each in node.desired}
        self._outcomes: dict[str, StepOutcome] = {}
        self._numbers = {name: number for number, name in enumerate(node.order, 1)}

    def run(self) -> tuple[StepOutcome, ...]:
        """Every step's outcome, in the order of the change set."""
        begun: set[str] = set()
        with ConcurrentSteps[StepOutcome](f"{self._node.node}-step") as crew:
            while len(self._outcomes) < len(self._node.order):
                for name in [each for each in self._node.order if each not in begun]:
                    begun |= self._begin(self._steps[name], crew)
                for name, outcome in crew.ended():
                    self._end(self._steps[name], self._kept(self._steps[name], outcome))
        return tuple(self._outcomes[name] for name in self._node.order)

    def _begin(self, step: Step, crew: ConcurrentSteps[StepOutcome]) -> set[str]:
        """Skip the step, do it, or have the crew do it; nothing where it must wait. What has been begun."""
        if any(name not in self._outcomes for name in (*self._before[step.id], *self._earlier_in_sequence(step))):
            return set()
        if why := self._reason_to_skip(step):
            self._end(step, _skipped(step, why))
        elif crew.takes(step.concurrency_group, step.max_parallel):
            crew.begin(step.concurrency_group, step.id, lambda: self._one(step), step.max_parallel)
        elif crew.idle:
            self._end(step, self._kept(step, self._one(step)))
        else:
            return set()
        return {step.id}

    def _end(self, step: Step, outcome: StepOutcome) -> None:
        self._outcomes[step.id] = outcome
        self._listen(StepEnded(self._node.node, outcome))

    def _earlier_in_sequence(self, step: Step) -> list[str]:
        """The earlier steps of the same resource, or of the same one of the several that it stands for."""
        lane = [each.id for each in self._changes[step.id].steps if each.sequence == step.sequence]
        return [name for name in lane if self._numbers[name] < self._numbers[step.id]]

    def _reason_to_skip(self, step: Step) -> str:
        if self._lost:
            return "the connection to the node was lost"
        if self._stop.is_set() and step.id not in self._owed():
            return "interrupted"
        if blocked := [name for name in self._rests_on[step.id] if not self._done(name)]:
            return f"it waits for “{self._steps[blocked[0]].title}”, which was not done"
        if not all(self._done(name) for name in self._earlier_in_sequence(step)):
            return "an earlier step of the same resource was not done"
        unread = next(filter(None, map(self._unread, self._changes[step.id].steps)), "")
        return f"{unread} could not be read" if unread else ""

    def _owed(self) -> frozenset[str]:
        """What is done even after an interrupt: the rest of each replacement that has begun, and what that waits for.

        Its first step stopped what served, which is to serve again before the run ends.
        """
        begun = [
            change
            for change in self._node.changes
            if change.action is Action.REPLACE and any(self._done(step.id) for step in change.steps)
        ]
        found: set[str] = set()
        left = [step.id for change in begun for step in change.steps]
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += [*self._before[name], *self._earlier_in_sequence(self._steps[name])]
        return frozenset(found)

    def _done(self, name: str) -> bool:
        return name in self._outcomes and self._outcomes[name].status is Status.DONE

    def _unread(self, step: Step) -> str:
        touched = (*step.uses, *step.makes, *step.releases, *step.frees)
        for unknown in self._node.unknown:
            if any(unknown.address.covers(one) or one.covers(unknown.address) for one in touched):
                return str(unknown.address)
        return ""

    def _one(self, step: Step) -> StepOutcome:
        number, total = self._numbers[step.id], len(self._node.order)
        self._listen(StepStarted(self._node.node, step.id, step.title, number, total))
        started = time.monotonic()
        transcript: list[str] = []
        problems = tuple(redact_diagnostic(each, self._redact) for each in self._attempt(step, transcript))
        status = Status.FAILED if problems else Status.DONE
        return StepOutcome(step.id, step.title, status, time.monotonic() - started, tuple(transcript), problems)

    def _attempt(self, step: Step, transcript: list[str]) -> tuple[Diagnostic, ...]:
        def tell(text: str) -> None:
            said = self._redact(text)
            transcript.append(said)
            self._listen(StepProgress(self._node.node, step.id, said))

        def measure(text: str, amount: Amount) -> None:
            self._listen(StepProgress(self._node.node, step.id, self._redact(text), amount))

        try:
            self._journal.step_begins(step.id, step.title)
            self._keeper.remember(_APPLY[step.address.kind](step, self._hands(tell, measure)))
        except ConnectionLost as problem:
            self._lost = True
            return problem.diagnostics
        except Problem as problem:
            return problem.diagnostics
        except Exception as fault:  # noqa: BLE001 - one step's fault must not hide what the others did
            return (internal_error(str(step.address), fault, f"“{step.title}”"),)
        return ()

    def _kept(self, step: Step, outcome: StepOutcome) -> StepOutcome:
        """The outcome, written down on the node; what could not be written down has not ended well."""
        if self._lost:
            return outcome
        try:
            self._journal.step_ends(outcome)
            self._record(step, outcome)
        except Problem as problem:
            self._lost = isinstance(problem, ConnectionLost)
            return replace(outcome, status=Status.FAILED, diagnostics=outcome.diagnostics + problem.diagnostics)
        return outcome

    def _record(self, step: Step, outcome: StepOutcome) -> None:
        change = self._changes[step.id]
        rest = [each.id for each in change.steps if each.id != step.id]
        if outcome.status is Status.DONE and all(self._done(name) for name in rest):
            if change.action is Action.DELETE:
                self._keeper.removed(change.address)
            elif desired := self._desired.get(change.address):
                self._keeper.applied(desired)
        self._keeper.write()


def _skipped(step: Step, why: str) -> StepOutcome:
    return StepOutcome(step.id, step.title, Status.SKIPPED, transcript=(f"skipped: {why}",))
