"""Services that are stopped while a GPU is reset: exactly those that ran, and started again whatever happens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpuplan.resources.gpu.settings import read_names
from gpuplan.resources.gpu.words import listed
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem, Refused
from gpuplan.types.value import JsonObject

if TYPE_CHECKING:
    from gpuplan.resources.gpu.apply.task import Task


@contextmanager
def stopped(task: Task) -> Iterator[None]:
    """Those of the step's `stop_services` that run are stopped inside, and started again at the end.

    The node notes them down before the first one stops, so that a run that is cut off here leaves the next one
    knowing what to start. Where the connection is lost the agent starts them itself as it ends.

    Raises:
        Problem: one of them does not stop (nothing was done, and the others run again) or does not start again.
    """
    names = read_names(task.step.payload.get("stop_services"))
    if not names:
        yield
        return
    _stop(task, names)
    try:
        yield
    except ConnectionLost:
        raise
    except Problem as problem:
        raise Problem((*problem.diagnostics, *_started_or_why(task))) from problem
    except BaseException:
        _started_or_why(task)
        raise
    if faults := _started_or_why(task):
        raise Problem(faults)


def start(task: Task) -> None:
    """Start what was stopped for this GPU and does not run yet.

    Raises:
        Problem: one does not start.
    """
    try:
        started = _names(task.context.agent("service.start", uuid=task.uuid), "started")
    except Refused as refused:
        raise Problem(_failed(task, "started again", refused)) from refused
    if started:
        task.context.say(f"{listed(started)} runs again" if len(started) == 1 else f"{listed(started)} run again")


def _stop(task: Task, names: Sequence[str]) -> None:
    try:
        done = _names(task.context.agent("service.stop", uuid=task.uuid, services=list(names)), "stopped")
    except Refused as refused:
        raise Problem(_failed(task, "stopped", refused)) from refused
    task.context.say(f"stopped {listed(done)}" if done else f"{listed(names)}: none of them ran")


def _started_or_why(task: Task) -> tuple[Diagnostic, ...]:
    try:
        start(task)
    except Problem as problem:
        return problem.diagnostics
    return ()


def _names(answer: JsonObject, key: str) -> tuple[str, ...]:
    return read_names(answer[key])


def _failed(task: Task, what: str, refused: Refused) -> Diagnostic:
    return Diagnostic(
        f"A service could not be {what}",
        f"“{task.step.title}”: {refused.text} ({refused.code}).",
        "Look at `systemctl status` and `journalctl -u` on the node; the next apply tries again.",
        address=str(task.step.address),
    )
