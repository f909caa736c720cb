"""Processes of the node, as /proc tells of them: who has which GPU open, and what service one belongs to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

DEVICE = re.compile(r"/dev/nvidia(\d+)\Z")
"""The device file of one GPU, by its minor number; nvidiactl and nvidia-uvm are of no GPU in particular."""
SERVICE = re.compile(r"/system\.slice/(?:[^/\n]+\.slice/)*([^/\n]+\.service)(?:/|$)", re.MULTILINE)
"""The service in /proc/PID/cgroup; a service of a user's own session is not one of the system."""


def device_holders(proc: str = "/proc") -> dict[int, list[int]]:
    """Minor number of a GPU → who has it open, by process id, without this process. Only root sees everybody's."""
    found: dict[int, list[int]] = {}
    for name in os.listdir(proc):
        if name.isdigit() and int(name) != os.getpid():
            for minor in sorted({int(match.group(1)) for match in open_files(os.path.join(proc, name, "fd"), DEVICE)}):
                found.setdefault(minor, []).append(int(name))
    return {minor: sorted(pids) for minor, pids in found.items()}


def service_of(cgroup: str) -> str | None:
    """The system's service that a process belongs to, by the text of its /proc/PID/cgroup."""
    found = SERVICE.search(cgroup)
    return found.group(1) if found else None


def open_files(directory: str, form: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """The matches of what the descriptors in /proc/PID/fd lead to; what went away meanwhile is not there."""
    try:
        descriptors = os.listdir(directory)
    except OSError:  # the process ended, or is somebody else's
        return
    for descriptor in descriptors:
        try:
            match = form.match(os.readlink(os.path.join(directory, descriptor)))
        except OSError:
            continue
        if match:
            yield match
