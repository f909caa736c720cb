"""Runs one node's steps in order, those of a concurrency group in parallel; skips what depends on a failed step."""

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

MAX_PARALLEL = 4
"""Steps of a concurrency group at the same time. Triton loads as many models in parallel by default
(tritonserver --model-load-thread-count), and each load occupies one of its eight HTTP threads
(--http-thread-count); half of them stay free for inference."""

_APPLY = {name: kind.apply for kind in KINDS for name in (kind.name, *kind.companion_kinds)}

Result = TypeVar("Result")


class ConcurrentSteps(Generic[Result]):
    """A thread pool that runs the steps of one concurrency group at a time. A context manager that waits at its end."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(MAX_PARALLEL, thread_name_prefix=name)
        self._running: dict[Future[Result], tuple[str, int]] = {}
        self._group = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()

    @property
    def idle(self) -> bool:
        """Whether no step is running."""
        return not self._running

    def accepts(self, group: str, max_parallel: int = 0) -> bool:
        """Whether a step of this group may start now, by its own limit and those of the running steps (0 = none)."""
        limits = (max_parallel, *(limit for _, limit in self._running.values()))
        lowest = min(limit or MAX_PARALLEL for limit in (MAX_PARALLEL, *limits))
        return bool(group) and len(self._running) < lowest and (self.idle or group == self._group)

    def start(self, group: str, step_id: str, work: Callable[[], Result], max_parallel: int = 0) -> None:
        """Start a step whose group is accepted."""
        self._group = group
        self._running[self._pool.submit(work)] = (step_id, max_parallel)

    def wait(self) -> tuple[tuple[str, Result], ...]:
        """Wait until a step ends; the ids and results of all ended steps. Empty at once if none is running."""
        if self.idle:
            return ()
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        return tuple((self._running.pop(future)[0], future.result()) for future in done)


class StepRunner:
    """Runs the steps of one node.

    A step starts once its predecessors and the earlier steps of its sequence have ended. Steps are started, journalled
    and recorded in the thread that calls `run`.
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
        self._context = context
        self._journal = journal
        self._keeper = keeper
        self._listen = listen
        self._stop = stop
        self._redact = redact
        self._connection_lost = False
        self._changes = {step.id: change for change in node.changes for step in change.steps}
        self._steps = {step.id: step for change in node.changes for step in change.steps}
        self._predecessors = predecessors(tuple(self._steps.values()))
        self._required = required_predecessors(tuple(self._steps.values()))
        self._desired = {resource.address: resource for resource in node.desired}
        self._outcomes: dict[str, StepOutcome] = {}
        self._numbers = {step_id: number for number, step_id in enumerate(node.order, 1)}

    def run(self) -> tuple[StepOutcome, ...]:
        """The outcome of every step, in the order of the change set."""
        started: set[str] = set()
        with ConcurrentSteps[StepOutcome](f"{self._node.node}-step") as concurrent:
            while len(self._outcomes) < len(self._node.order):
                for step_id in [step_id for step_id in self._node.order if step_id not in started]:
                    if self._start(self._steps[step_id], concurrent):
                        started.add(step_id)
                for step_id, outcome in concurrent.wait():
                    self._end(self._steps[step_id], self._saved(self._steps[step_id], outcome))
        return tuple(self._outcomes[step_id] for step_id in self._node.order)

    def _start(self, step: Step, concurrent: ConcurrentSteps[StepOutcome]) -> bool:
        """Skip the step, run it, or start it in the background; False if it has to wait."""
        earlier = (*self._predecessors[step.id], *self._earlier_in_sequence(step))
        if any(step_id not in self._outcomes for step_id in earlier):
            return False
        if reason := self._reason_to_skip(step):
            self._end(step, _skipped(step, reason))
        elif concurrent.accepts(step.concurrency_group, step.max_parallel):
            concurrent.start(step.concurrency_group, step.id, lambda: self._run_step(step), step.max_parallel)
        elif concurrent.idle:
            self._end(step, self._saved(step, self._run_step(step)))
        else:
            return False
        return True

    def _end(self, step: Step, outcome: StepOutcome) -> None:
        self._outcomes[step.id] = outcome
        self._listen(StepEnded(self._node.node, outcome))

    def _earlier_in_sequence(self, step: Step) -> list[str]:
        same = [other.id for other in self._changes[step.id].steps if other.sequence == step.sequence]
        return [step_id for step_id in same if self._numbers[step_id] < self._numbers[step.id]]

    def _reason_to_skip(self, step: Step) -> str:
        if self._connection_lost:
            return "the connection to the node was lost"
        if self._stop.is_set() and step.id not in self._begun_replacements():
            return "interrupted"
        if missing := [step_id for step_id in self._required[step.id] if not self._done(step_id)]:
            return f"it needs “{self._steps[missing[0]].title}”, which was not done"
        if not all(self._done(step_id) for step_id in self._earlier_in_sequence(step)):
            return "an earlier step of the same resource was not done"
        unreadable = next(filter(None, map(self._unreadable, self._changes[step.id].steps)), "")
        return f"{unreadable} could not be read" if unreadable else ""

    def _begun_replacements(self) -> frozenset[str]:
        """The steps that run even after an interrupt: the rest of each begun replacement, and their predecessors.

        The first step of a replacement may have stopped what was serving, which must serve again when the run ends.
        """
        begun = [
            change
            for change in self._node.changes
            if change.action is Action.REPLACE and any(self._done(step.id) for step in change.steps)
        ]
        result: set[str] = set()
        queue = [step.id for change in begun for step in change.steps]
        while queue:
            step_id = queue.pop()
            if step_id not in result:
                result.add(step_id)
                queue += [*self._predecessors[step_id], *self._earlier_in_sequence(self._steps[step_id])]
        return frozenset(result)

    def _done(self, step_id: str) -> bool:
        return step_id in self._outcomes and self._outcomes[step_id].status is Status.DONE

    def _unreadable(self, step: Step) -> str:
        touched = (*step.uses, *step.makes, *step.releases, *step.frees)
        for part in self._node.unknown:
            if any(part.address.covers(address) or address.covers(part.address) for address in touched):
                return str(part.address)
        return ""

    def _run_step(self, step: Step) -> StepOutcome:
        number, total = self._numbers[step.id], len(self._node.order)
        self._listen(StepStarted(self._node.node, step.id, step.title, number, total))
        started = time.monotonic()
        transcript: list[str] = []
        diagnostics = tuple(redact_diagnostic(problem, self._redact) for problem in self._attempt(step, transcript))
        status = Status.FAILED if diagnostics else Status.DONE
        return StepOutcome(step.id, step.title, status, time.monotonic() - started, tuple(transcript), diagnostics)

    def _attempt(self, step: Step, transcript: list[str]) -> tuple[Diagnostic, ...]:
        def say(text: str) -> None:
            line = self._redact(text)
            transcript.append(line)
            self._listen(StepProgress(self._node.node, step.id, line))

        def progress(text: str, amount: Amount) -> None:
            self._listen(StepProgress(self._node.node, step.id, self._redact(text), amount))

        try:
            self._journal.step_started(step.id, step.title)
            self._keeper.remember(_APPLY[step.address.kind](step, self._context(say, progress)))
        except ConnectionLost as problem:
            self._connection_lost = True
            return problem.diagnostics
        except Problem as problem:
            return problem.diagnostics
        except Exception as error:  # noqa: BLE001 - a bug met in one step must not hide what the others did
            return (internal_error(str(step.address), error, f"“{step.title}”"),)
        return ()

    def _saved(self, step: Step, outcome: StepOutcome) -> StepOutcome:
        """The outcome, after it was written to the node's journal and record; failed if that failed."""
        if self._connection_lost:
            return outcome
        try:
            self._journal.step_ended(outcome)
            self._record(step, outcome)
        except Problem as problem:
            self._connection_lost = isinstance(problem, ConnectionLost)
            return replace(outcome, status=Status.FAILED, diagnostics=outcome.diagnostics + problem.diagnostics)
        return outcome

    def _record(self, step: Step, outcome: StepOutcome) -> None:
        change = self._changes[step.id]
        others = [other.id for other in change.steps if other.id != step.id]
        if outcome.status is Status.DONE and all(self._done(step_id) for step_id in others):
            if change.action is Action.DELETE:
                self._keeper.removed(change.address)
            elif desired := self._desired.get(change.address):
                self._keeper.applied(desired)
        self._keeper.write()


def _skipped(step: Step, reason: str) -> StepOutcome:
    return StepOutcome(step.id, step.title, Status.SKIPPED, transcript=(f"skipped: {reason}",))
