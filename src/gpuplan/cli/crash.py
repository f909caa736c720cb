"""Keeps the traceback of an unforeseen failure in a private file, for a report."""

from __future__ import annotations

import os
import platform
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path

from gpuplan import __version__


def keep(fault: Exception) -> str:
    """Write it to the state directory, readable by its owner alone; the file's path, or empty where that fails."""
    when = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    text = (
        f"gpuplan {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
        f"{when} {' '.join(sys.argv[1:2])}\n\n{''.join(traceback.format_exception(fault))}"
    )
    try:
        folder = state_directory()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = folder / f"failure-{when}-{os.getpid()}.txt"
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
            out.write(text)
    except OSError:
        return ""
    return str(file)


def state_directory() -> Path:
    """$GPUPLAN_STATE_DIR, or the user's state directory."""
    if chosen := os.environ.get("GPUPLAN_STATE_DIR"):
        return Path(chosen)
    from platformdirs import user_state_path

    return user_state_path("gpuplan")
