"""What of NVIDIA's container toolkit is installed on the node, and so how its engine can give GPUs to containers."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Mapping

from .specifications import specifications

TOOLS = ("nvidia-container-runtime-hook", "nvidia-container-runtime", "nvidia-cdi-hook", "nvidia-ctk")
ENGINE = "/var/run/docker.pid"
"""The engine's process; it finds the hook by its own PATH (moby, daemon/nvidia_linux.go)."""
USUAL = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEVICE = re.compile(r"nvidia(?:\d+|ctl)\Z")


def installed() -> dict[str, object]:
    """The value of the probe `toolkit`."""
    paths = _paths()
    tools: Mapping[str, object] = {name: shutil.which(name, path=paths) for name in TOOLS}
    return {"tools": dict(tools), "cdi": specifications(), "char_links": char_links()}


def char_links(dev: str = "/dev") -> bool | None:
    """Whether /dev/char has a link to each GPU's device file, by which systemd keeps them; None without such files."""
    found = []
    for name in filter(DEVICE.match, os.listdir(dev)):
        told = os.stat(os.path.join(dev, name))
        if stat.S_ISCHR(told.st_mode):
            number = "{}:{}".format(os.major(told.st_rdev), os.minor(told.st_rdev))
            found.append(os.path.lexists(os.path.join(dev, "char", number)))
    return all(found) if found else None


def _paths(pid_file: str = ENGINE) -> str:
    """The PATH of the engine where it can be read, with that of this process and the usual one."""
    try:
        with open(pid_file, encoding="ascii") as file:
            number = int(file.read())
        with open("/proc/{}/environ".format(number), "rb") as file:
            entries = dict(entry.partition(b"=")[::2] for entry in file.read().split(b"\0"))
        of_engine = os.fsdecode(entries.get(b"PATH", b""))
    except (OSError, ValueError):
        of_engine = ""
    return ":".join(filter(None, (of_engine, os.environ.get("PATH"), USUAL)))
