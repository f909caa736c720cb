"""Steps: run one node's steps in order; what waits for a failed one is skipped, the rest goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from gpuplan.flow.journal import Journal
from gpuplan.flow.ledger import Ledger
from gpuplan.flow.order import waits_for
from gpuplan.flow.redact import Redactor, redacted
from gpuplan.flow.unforeseen import unforeseen
from gpuplan.kinds import ROOMS
from gpuplan.kinds.room import Hands
from gpuplan.model.change import Action, Step
from gpuplan.model.changeset import NodeChanges
from gpuplan.model.diagnostic import ConnectionLost, Diagnostic, Problem
from gpuplan.model.event import Listener, StepEnded, StepProgress, StepStarted
from gpuplan.model.outcome import Status, StepOutcome

_APPLY = {kind: room.apply for room in ROOMS for kind in (room.kind, *room.also)}


class Runner:
    """Runs the steps of one node."""

    def __init__(
        self,
        node: NodeChanges,
        hands: Callable[[Callable[[str], None]], Hands],
        journal: Journal,
        ledger: Ledger,
        listen: Listener,
        stop: threading.Event,
        redact: Redactor,
    ) -> None:
        self._node = node
        self._hands = hands
        self._journal = journal
        self._ledger = ledger
        self._listen = listen
        self._stop = stop
        self._redact = redact
        self._lost = False
        self._changes = {step.id: change for change in node.changes for step in change.steps}
        self._steps = {step.id: step for change in node.changes for step in change.steps}
        self._before = waits_for(tuple(self._steps.values()))
        self._desired = {each.address: each for each in node.desired}
        self._outcomes: dict[str, StepOutcome] = {}

    def run(self) -> tuple[StepOutcome, ...]:
        """Every step's outcome, in the order in which they ran or would have run."""
        for number, name in enumerate(self._node.order, 1):
            step = self._steps[name]
            why = self._reason_to_skip(step)
            self._outcomes[name] = _skipped(step, why) if why else self._one(step, number)
            self._listen(StepEnded(self._node.node, self._outcomes[name]))
        return tuple(self._outcomes.values())

    def _reason_to_skip(self, step: Step) -> str:
        if self._lost:
            return "the connection to the node was lost"
        if self._stop.is_set():
            return "interrupted"
        if blocked := [name for name in self._before[step.id] if not self._done(name)]:
            return f"it waits for “{self._steps[blocked[0]].title}”, which was not done"
        lane = [each.id for each in self._changes[step.id].steps if each.lane == step.lane]
        siblings = [name for name in lane if name in self._outcomes]
        if not all(self._done(name) for name in siblings):
            return "an earlier step of the same resource was not done"
        unread = next(filter(None, map(self._unread, self._changes[step.id].steps)), "")
        return f"{unread} could not be read" if unread else ""

    def _done(self, name: str) -> bool:
        return name in self._outcomes and self._outcomes[name].status is Status.DONE

    def _unread(self, step: Step) -> str:
        touched = (*step.uses, *step.makes, *step.releases, *step.frees)
        for unknown in self._node.unknown:
            if any(unknown.address.covers(one) or one.covers(unknown.address) for one in touched):
                return str(unknown.address)
        return ""

    def _one(self, step: Step, number: int) -> StepOutcome:
        self._listen(StepStarted(self._node.node, step.id, step.title, number, len(self._node.order)))
        started = time.monotonic()
        transcript: list[str] = []
        problems = tuple(redacted(each, self._redact) for each in self._attempt(step, transcript))
        outcome = StepOutcome(
            step.id,
            step.title,
            Status.FAILED if problems else Status.DONE,
            time.monotonic() - started,
            tuple(transcript),
            problems,
        )
        return self._kept(step, outcome)

    def _attempt(self, step: Step, transcript: list[str]) -> tuple[Diagnostic, ...]:
        def tell(text: str) -> None:
            said = self._redact(text)
            transcript.append(said)
            self._listen(StepProgress(self._node.node, step.id, said))

        try:
            self._journal.step_begins(step.id, step.title)
            self._ledger.remember(_APPLY[step.address.kind](step, self._hands(tell)))
        except ConnectionLost as problem:
            self._lost = True
            return problem.diagnostics
        except Problem as problem:
            return problem.diagnostics
        except Exception as fault:  # noqa: BLE001 - one step's fault must not hide what the others did
            return (unforeseen(str(step.address), fault, f"“{step.title}”"),)
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
                self._ledger.removed(change.address)
            elif desired := self._desired.get(change.address):
                self._ledger.applied(desired)
        self._ledger.write()


def _skipped(step: Step, why: str) -> StepOutcome:
    return StepOutcome(step.id, step.title, Status.SKIPPED, transcript=(f"skipped: {why}",))
