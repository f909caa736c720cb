"""CDI specifications: the device names that those of NVIDIA on the node list.

An engine that gives GPUs by CDI knows only what such a file lists; nothing updates it when slices change
(NVIDIA/nvidia-container-toolkit#1828).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence

from ..failure import Failure, explain

DIRECTORIES = ("/etc/cdi", "/var/run/cdi")
"""Where engines look, the later one first (CDI specification, SPEC.md)."""
KIND = "nvidia.com/gpu"
LARGEST = 4 << 20
"""Bytes of one file; one of a node with sixteen GPUs has some hundred thousand."""
MOST = 32
"""Files of one directory."""
FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\.(?:yaml|json)\Z")
YAML_KIND = re.compile(r"^kind:\s*[\"']?([^\s\"'#]+)", re.MULTILINE)
YAML_NAME = re.compile(r"^(?:- | {1,4}(?:- )?)name:\s*[\"']?([^\s\"'#]+)", re.MULTILINE)


def specifications(directories: Sequence[str] = DIRECTORIES) -> list[dict[str, object]]:
    """Each of NVIDIA's specifications: `{"path", "devices": [..]}`, or its path and an error."""
    found: list[dict[str, object]] = []
    for path in (path for directory in directories for path in _files(directory)):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read(LARGEST + 1)
            if len(text) > LARGEST:
                raise Failure("too_large", "{} is larger than {} MiB".format(path, LARGEST >> 20))
            kind, devices = parse_specification(text)
            if kind == KIND:
                found.append({"path": path, "devices": devices})
        except (OSError, ValueError, Failure) as error:
            found.append({"path": path, "error": explain(error).to_json()})
    return found


def parse_specification(text: str) -> tuple[str, list[str]]:
    """Kind and device names of a specification, JSON or YAML; of YAML only the form that nvidia-ctk writes is known.

    Raises ValueError for JSON that is not a specification.
    """
    if not text.lstrip().startswith("{"):
        kind = YAML_KIND.search(text)
        return (kind.group(1) if kind else ""), [match.group(1) for match in YAML_NAME.finditer(text)]
    found_document = json.loads(text)
    try:
        return str(found_document["kind"]), [str(each["name"]) for each in found_document.get("devices") or ()]
    except (KeyError, TypeError) as error:
        raise ValueError("not a CDI specification") from error


def _files(directory: str) -> Iterator[str]:
    try:
        names = sorted(name for name in os.listdir(directory) if FILE.match(name))
    except OSError:
        return
    yield from (os.path.join(directory, name) for name in names[:MOST])


# What of NVIDIA's container toolkit is installed on the node, and so how its engine can give GPUs to containers.

TOOLS = ("nvidia-container-runtime-hook", "nvidia-container-runtime", "nvidia-cdi-hook", "nvidia-ctk")
ENGINE = "/var/run/docker.pid"
"""The engine's process; it finds the hook by its own PATH (moby, daemon/nvidia_linux.go)."""
USUAL = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEVICE = re.compile(r"nvidia(?:\d+|ctl)\Z")


def read_toolkit() -> dict[str, object]:
    """The value of the probe `toolkit`."""
    paths = _paths()
    tools: Mapping[str, object] = {name: shutil.which(name, path=paths) for name in TOOLS}
    return {"tools": dict(tools), "cdi": specifications(), "char_links": char_links()}


def char_links(dev: str = "/dev") -> bool | None:
    """Whether /dev/char has a link to each GPU's device file, by which systemd keeps them; None without such files."""
    found = []
    for name in filter(DEVICE.match, os.listdir(dev)):
        found_document = os.stat(os.path.join(dev, name))
        if stat.S_ISCHR(found_document.st_mode):
            number = "{}:{}".format(os.major(found_document.st_rdev), os.minor(found_document.st_rdev))
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
