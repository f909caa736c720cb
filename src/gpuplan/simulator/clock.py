"""Times as the Docker engine writes them."""

from __future__ import annotations

import time

NEVER = "0001-01-01T00:00:00Z"


def stamp(seconds: float) -> str:
    """RFC 3339 with nanoseconds, UTC; the engine's zero time for 0."""
    if not seconds:
        return NEVER
    whole = int(seconds)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{int((seconds - whole) * 1e9):09d}Z"


def ago(seconds: float) -> str:
    """How long ago, as `docker ps` says it."""
    age = max(0, int(time.time() - seconds))
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if age >= 2 * size:
            return f"{age // size} {name}"
    return f"{age} seconds" if age > 1 else "Less than a second"
