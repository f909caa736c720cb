"""Whether a node was started again since the last apply: slices do not outlive that, and one cause is told for all."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from gpuplan.types.record import Record
from gpuplan.types.snapshot import Snapshot

ROUNDING = timedelta(seconds=2)
"""Both times are in whole seconds."""


def boot_id(snapshot: Snapshot) -> str:
    """What the node calls its present boot; empty where it could not say."""
    host = snapshot.probe("host").value
    found = host.get("boot_id") if isinstance(host, Mapping) else None
    return found if isinstance(found, str) else ""


def restarted(snapshot: Snapshot, record: Record) -> str:
    """When the node was started, in UTC, where that was after the last apply; else empty.

    The boot id decides. A record that holds none is compared by the clock.
    """
    started = _started(snapshot)
    if started is None or record.empty:
        return ""
    if record.boot:
        again = boot_id(snapshot) not in ("", record.boot)
    else:
        applied = _moment(record.when)
        again = applied is not None and started > applied + ROUNDING
    return started.strftime("%Y-%m-%dT%H:%M:%SZ") if again else ""


def _started(snapshot: Snapshot) -> datetime | None:
    host = snapshot.probe("host").value
    uptime = host.get("uptime_seconds") if isinstance(host, Mapping) else None
    asked = _moment(snapshot.asked_at)
    return asked - timedelta(seconds=uptime) if asked and isinstance(uptime, int | float) else None


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return None
