"""Putting a node back to bare, quickly: what a test left goes, the images that the node started with stay."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.lab import network, power, running
from tests.lab.commands import LabError
from tests.lab.engine import Engine
from tests.lab.place import Node, Place

KEPT_NETWORKS = {"bridge", "host", "none"}


def wipe(place: Place, node: Node) -> None:
    """No containers, volumes or networks of anybody, MIG off, no faults, no CDI, no /var/lib/gpuplan; the cable in."""
    if not place.stamp.exists():
        raise LabError("The lab is off. Run make lab-up.")
    network.plug_in(place, node)
    if not running.is_ready(place, node):
        power.reboot(place, node)
    pid = running.first_process(place, node)
    assert pid is not None
    _empty(Engine(pid), set(node.images))
    root = Path(f"/proc/{pid}/root")
    for name in ("var/lib/gpuplan", "etc/cdi", "run/cdi"):
        shutil.rmtree(root / name, ignore_errors=True)
    for found in (root / "tmp").iterdir():
        shutil.rmtree(found) if found.is_dir() and not found.is_symlink() else found.unlink()
    subprocess.run(running.run_as_root(pid, "nvmlsim", "reset"), check=True)


def _empty(engine: Engine, images: set[str]) -> None:
    for container in engine.ask("GET", "/containers/json?all=1"):
        engine.ask("DELETE", f"/containers/{container['Id']}?force=1&v=1")
    for volume in engine.ask("GET", "/volumes")["Volumes"] or ():
        engine.ask("DELETE", f"/volumes/{volume['Name']}?force=1")
    for found in engine.ask("GET", "/networks"):
        if found["Name"] not in KEPT_NETWORKS:
            engine.ask("DELETE", f"/networks/{found['Id']}")
    for tag in engine.tags().keys() - images:
        engine.ask("DELETE", f"/images/{tag}?force=1")
