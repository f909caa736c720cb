"""Control groups: one for the lab, one in it for each node, in every hierarchy that this machine has."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from functools import cache
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
UNIFIED = "2"


@cache
def hierarchies() -> tuple[str, ...]:
    """`("2",)` where control groups are unified, else the hierarchies of version 1: "cpu", "name=systemd", …"""
    if (MOUNT / "cgroup.controllers").exists():
        return (UNIFIED,)
    rows = [line.split(":")[1] for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()]
    return tuple(row for row in rows if row and _directory(row).is_dir())


def enter_paths(lab: str, node: str) -> list[Path]:
    """The node's group in each hierarchy, made where it is not there."""
    paths = []
    for hierarchy in hierarchies():
        group = _directory(hierarchy) / lab / node
        group.mkdir(parents=True, exist_ok=True)
        if "cpuset" in hierarchy.split(","):
            for path in (group.parent, group):
                for name in ("cpuset.cpus", "cpuset.mems"):
                    (path / name).write_text((_directory(hierarchy) / name).read_text())
        if hierarchy == UNIFIED:
            _hand_down(group.parent)
        paths.append(group)
    return paths


def step_outside(lab: str, pid: int) -> None:
    """Take the process that holds a node's namespaces out of the node's group, where unified groups want none."""
    if hierarchies() == (UNIFIED,):
        outside = MOUNT / lab / "outside"
        outside.mkdir(exist_ok=True)
        (outside / "cgroup.procs").write_text(str(pid))


def groups(lab: str) -> set[str]:
    """Names of the nodes that have a group, running or left over."""
    return {path.name for h in hierarchies() for path in (_directory(h) / lab).glob("*/")}


def kill(lab: str, node: str) -> None:
    """End every process of the node and remove its groups."""
    deadline = time.monotonic() + 10
    while pids := _processes(lab, node):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes of {node} do not end: {sorted(pids)}")
        time.sleep(0.02)
    for hierarchy in hierarchies():
        _remove(_directory(hierarchy) / lab / node)


def remove_lab(lab: str) -> None:
    """Remove the lab's own groups once no node has one."""
    for hierarchy in hierarchies():
        _remove(_directory(hierarchy) / lab)


def _directory(hierarchy: str) -> Path:
    return MOUNT if hierarchy == UNIFIED else MOUNT / hierarchy.removeprefix("name=")


def _hand_down(group: Path) -> None:
    """Let the groups below `group` use the controllers that it has."""
    for path in (MOUNT, group):
        for controller in (path / "cgroup.controllers").read_text().split():
            with contextlib.suppress(OSError):
                (path / "cgroup.subtree_control").write_text(f"+{controller}")


def _processes(lab: str, node: str) -> set[int]:
    found: set[int] = set()
    for hierarchy in hierarchies():
        for listing in (_directory(hierarchy) / lab / node).rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                found |= {int(pid) for pid in listing.read_text().split()}
    return found


def _remove(group: Path) -> None:
    """Remove a group with those in it; a group is busy for a moment after its last process has gone."""
    deadline = time.monotonic() + 5
    while group.is_dir():
        for path, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                Path(path).rmdir()
        if time.monotonic() > deadline:
            raise TimeoutError(f"control group {group} stays busy")
        if group.is_dir():
            time.sleep(0.01)
