"""Failures in the words of docs/agent.md: one code and what the node said."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Mapping
from typing import Callable

NVML_CODES = {
    2: "invalid",
    3: "not_supported",
    4: "no_permission",
    6: "not_found",
    9: "no_driver",
    10: "timeout",
    12: "no_library",
    13: "not_supported",
    15: "gpu_is_lost",
    16: "reset_required",
    18: "driver_mismatch",
    19: "in_use",
    23: "insufficient_resources",
}
"""NVML's return values (nvml.h, nvmlReturn_t) that have a word of ours; the others are `unexpected`."""

ERRNO_CODES = {
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EACCES: "no_permission",
    errno.EPERM: "no_permission",
    errno.EROFS: "no_permission",
    errno.ENOENT: "not_found",
}


class Failure(Exception):
    """An operation or a probe has no answer; `code` is a word of docs/agent.md, `text` what the node said."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

    def to_json(self) -> dict[str, object]:
        """The `error` object of an answer."""
        return {"code": self.code, "text": self.text}


def explain(error: BaseException) -> Failure:
    """Any exception as a Failure. NVML's are known by their class name, since the module differs in a simulation."""
    if isinstance(error, Failure):
        return error
    text = str(error) or type(error).__name__
    if any(kind.__name__ == "NVMLError" for kind in type(error).__mro__):
        return Failure(NVML_CODES.get(getattr(error, "value", 0), "unexpected"), text)
    if isinstance(error, OSError):
        return Failure(ERRNO_CODES.get(error.errno or 0, "unexpected"), text)
    return Failure("unexpected", "{}: {}".format(type(error).__name__, text))


# Jobs that run at the same time, each with its own deadline and its own error.

Job = Callable[[], object]


class ProbeThread:
    """One job in a thread of its own. The thread is a daemon, so one that never ends does not keep the process."""

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
        except Exception as error:  # noqa: BLE001 - a failure is the answer of this probe only
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
    """The job's result; raises Failure `timeout` if it takes longer, and abandons it."""
    answer = ProbeThread("operation", job).answer(seconds)
    error = answer.get("error")
    if isinstance(error, dict):
        raise Failure(error["code"], error["text"])
    return answer["value"]


def run_all(jobs: Mapping[str, Job], deadlines: Mapping[str, float]) -> dict[str, dict[str, object]]:
    """Run all jobs at once, each with its own answer."""
    running = {name: ProbeThread(name, job) for name, job in jobs.items()}
    return {name: running[name].answer(deadlines[name]) for name in jobs}
