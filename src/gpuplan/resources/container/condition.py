"""Condition: why a container that is there does not run, in words."""

from __future__ import annotations

from gpuplan.resources.container.access import gpus_missing_at_start
from gpuplan.resources.snapshot.docker import Live
from gpuplan.types.change import FieldChange


def compare_state(live: Live) -> tuple[FieldChange | None, tuple[str, ...]]:
    """The difference in its state, and why; None where it runs."""
    if live.status == "running":
        return None, ()
    memory = ", out of memory" if live.oom_killed else ""
    words = {
        "created": "it was created and has not been started",
        "paused": "it is paused",
        "restarting": f"it is in a restart loop: {live.restarts} restarts, last exit code {live.exit_code}{memory}",
    }.get(live.status, f"it ended with exit code {live.exit_code}{memory}")
    error = (f"the engine says: {live.error.strip().splitlines()[-1]}",) if live.error.strip() else ()
    return FieldChange("state", live.status, "running"), (gpus_missing_at_start(live) or words, *error)
