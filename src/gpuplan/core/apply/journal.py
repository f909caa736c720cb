"""The journal: the append-only story of an apply, kept on the node it happens to. It never holds a secret."""

from __future__ import annotations

from datetime import UTC, datetime

from gpuplan.transport.session import Session
from gpuplan.types.outcome import StepOutcome
from gpuplan.types.value import JsonObject


class Journal:
    """Appends to one node's journal of one plan file; each entry is on disk before the next act."""

    def __init__(self, session: Session, plan: str, run: str) -> None:
        self._session = session
        self._plan = plan
        self._run = run

    def begins(self, who: str, steps: int) -> None:
        """A run starts on this node."""
        self._append("run", {"who": who, "steps": steps})

    def step_begins(self, step: str, title: str) -> None:
        """A step is about to act: what was begun and never ended was cut off."""
        self._append("begin", {"step": step, "title": title})

    def step_ends(self, outcome: StepOutcome) -> None:
        """A step ended."""
        self._append(
            "end",
            {
                "step": outcome.step,
                "status": outcome.status.value,
                "seconds": round(outcome.seconds, 3),
                "problems": [f"{each.summary}: {each.detail}" for each in outcome.diagnostics],
            },
        )

    def ends(self, exit_code: int) -> None:
        """The run is over on this node."""
        self._append("done", {"exit_code": exit_code})

    def _append(self, event: str, entry: JsonObject) -> None:
        line = {"at": now(), "run": self._run, "event": event, **entry}
        self._session.agent("journal.append", plan=self._plan, entries=[line])


def now() -> str:
    """This moment in UTC, ISO 8601, in whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
