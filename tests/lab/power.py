"""The whole lab: up, down, and back to bare."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.lab import cgroups, network, running
from tests.lab.cache import digest, discard_unfinished
from tests.lab.commands import LabError, missing
from tests.lab.images import pause_archive, triton_archive
from tests.lab.keys import make_keys, write_directory
from tests.lab.node_root import node_root
from tests.lab.place import NODES, PAUSE, Node, Place
from tests.lab.template import SEED, image_template

PROGRAMS = (
    "ip",
    "nsenter",
    "unshare",
    "gcc",
    "strip",
    "ssh",
    "ssh-keygen",
    "sshd",
    "dockerd",
    "sudo",
    "tini",
    "busybox",
)


@contextlib.contextmanager
def alone(place: Place) -> Iterator[None]:
    """Hold the lab's lock: two that switch it on or off take turns."""
    place.root.mkdir(parents=True, exist_ok=True)
    with (place.root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def up(place: Place) -> bool:
    """Bring the lab up, unless it is; True where it had to be started. What a killed run left is cleared away first."""
    _check_machine(place)
    with alone(place):
        make_keys(place)
        lower, triton, pause = node_root(place), triton_archive(place), pause_archive(place)
        made_of = digest(lower.name, triton.parent.name, pause.parent.name)
        if is_up(place, made_of):
            return False
        _clear(place)
        network.lay_bridge(place)
        template = image_template(place, lower, [triton, pause])
        _offer_archives(place, triton, pause)
        for node in NODES:
            running.furnish(place, node, template if len(node.images) > 1 else None)
            running.start(place, node, lower)
        for node in NODES:
            running.wait_ready(place, node)
            if PAUSE not in running.engine(place, node).tags():
                running.engine(place, node).load(pause)
        write_directory(place)
        place.stamp.write_text(f"{made_of}\n{lower}\n", encoding="utf-8")
        return True


def down(place: Place) -> None:
    """Switch everything off and leave nothing of it but the cache and the keys."""
    _need_root()
    with alone(place):
        _clear(place)


def is_up(place: Place, made_of: str = "") -> bool:
    """Whether all nodes run, and are made of what they should be."""
    if not place.stamp.exists() or (made_of and place.stamp.read_text(encoding="utf-8").split()[0] != made_of):
        return False
    return all(running.is_ready(place, node) for node in NODES)


def reboot(place: Place, node: Node) -> None:
    """Cut the node's power and switch it on again; LabError where the lab is not up."""
    if not place.stamp.exists():
        raise LabError("The lab is off. Run make lab-up.")
    lower = Path(place.stamp.read_text(encoding="utf-8").splitlines()[1])
    with alone(place):
        running.stop(place, node)
        running.start(place, node, lower)
        running.wait_ready(place, node)


def _clear(place: Place) -> None:
    place.stamp.unlink(missing_ok=True)
    discard_unfinished(place)
    known = {node.name: node for node in (*NODES, SEED)}
    for name in cgroups.groups(running.lab_group(place)) | known.keys():
        if name in known:
            running.stop(place, known[name])
        else:
            cgroups.kill(running.lab_group(place), name)
    cgroups.remove_lab(running.lab_group(place))
    network.remove_bridge(place)
    for path in (place.known_hosts, place.inventory):
        path.unlink(missing_ok=True)
    shutil.rmtree(place.root / "nodes", ignore_errors=True)
    shutil.rmtree(place.images, ignore_errors=True)


def _offer_archives(place: Place, *archives: Path) -> None:
    place.images.mkdir(parents=True, exist_ok=True)
    for archive in archives:
        os.link(archive, place.images / archive.name)


def _need_root() -> None:
    if os.geteuid() != 0:
        raise LabError("The lab needs root: it makes network namespaces, mounts and control groups. Try sudo.")


def _check_machine(place: Place) -> None:
    _need_root()
    if absent := missing(PROGRAMS):
        raise LabError(
            f"This machine lacks {', '.join(absent)}. Run ./scripts/setup, which installs what the lab needs."
        )
    place.root.mkdir(parents=True, exist_ok=True)
    if not running.can_stack(place.root):
        raise LabError(
            f"No overlay can be mounted on {place.root}: either this machine grants no mounts (a container without "
            "privileges?), or the directory lies on an overlay itself; then set GPUPLAN_LAB to one on ext4 or xfs."
        )
