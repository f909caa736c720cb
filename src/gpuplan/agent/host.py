"""The host probe: what the node is, how much room it has, and who holds its lock."""

from __future__ import annotations

import os

from . import lock
from .world import World


def probe(world: World) -> dict[str, object]:
    """The value of the probe `host`."""
    return {"hypervisor": False, **world.host(), "disk": _disk(world.root), "lock": lock.holder(world.root)}


def _disk(root: str) -> dict[str, object]:
    """Room on the file system that holds the root, or that will hold it once it is made."""
    path = os.path.abspath(root)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    room = os.statvfs(path)
    return {
        "path": root,
        "free": room.f_bavail * room.f_frsize,
        "total": room.f_blocks * room.f_frsize,
        "inodes": room.f_favail if room.f_files else None,
    }
