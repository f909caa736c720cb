"""Running jobs side by side, each with its own deadline and its own error."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Callable

from .failure import Failure, explain

Job = Callable[[], object]


class Running:
    """One job in a thread of its own. The thread is a daemon: one that never ends keeps nobody."""

    def __init__(self, name: str, job: Job) -> None:
        self._job = job
        self._started = time.monotonic()
        self._ended = 0.0
        self._outcome: dict[str, object] = {}
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            outcome: dict[str, object] = {"value": self._job()}
        except Exception as error:  # noqa: BLE001 - whatever a probe meets is its answer, never the end of the others
            outcome = {"error": explain(error).to_json()}
        self._ended = time.monotonic()
        self._outcome = outcome

    def answer(self, deadline: float) -> dict[str, object]:
        """`{"seconds", "value"}` or `{"seconds", "error"}`, at the latest `deadline` seconds after the job began."""
        self._thread.join(max(0.0, self._started + deadline - time.monotonic()))
        outcome = self._outcome
        if outcome:
            return {"seconds": round(self._ended - self._started, 4), **outcome}
        late = Failure("timeout", "no answer within {:g} s".format(deadline))
        return {"seconds": round(time.monotonic() - self._started, 4), "error": late.to_json()}


def within(seconds: float, job: Job) -> object:
    """What the job gives; Failure `timeout` where it takes longer, and then it is left behind."""
    answer = Running("operation", job).answer(seconds)
    error = answer.get("error")
    if isinstance(error, dict):
        raise Failure(error["code"], error["text"])
    return answer["value"]


def run_all(jobs: Mapping[str, Job], deadlines: Mapping[str, float]) -> dict[str, dict[str, object]]:
    """All jobs at once; each answers for itself."""
    running = {name: Running(name, job) for name, job in jobs.items()}
    return {name: running[name].answer(deadlines[name]) for name in jobs}
