"""CDI specifications: the device names that those of NVIDIA on the node list.

An engine that gives GPUs by CDI knows only what such a file lists; nobody writes it anew when slices change
(NVIDIA/nvidia-container-toolkit#1828).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence

from .failure import Failure, explain

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
            kind, devices = listed(text)
            if kind == KIND:
                found.append({"path": path, "devices": devices})
        except (OSError, ValueError, Failure) as error:
            found.append({"path": path, "error": explain(error).to_json()})
    return found


def listed(text: str) -> tuple[str, list[str]]:
    """Kind and device names of a specification, JSON or YAML; of YAML only the form that nvidia-ctk writes is known.

    Raises ValueError for JSON that is not a specification.
    """
    if not text.lstrip().startswith("{"):
        kind = YAML_KIND.search(text)
        return (kind.group(1) if kind else ""), [match.group(1) for match in YAML_NAME.finditer(text)]
    told = json.loads(text)
    try:
        return str(told["kind"]), [str(each["name"]) for each in told.get("devices") or ()]
    except (KeyError, TypeError) as error:
        raise ValueError("not a CDI specification") from error


def _files(directory: str) -> Iterator[str]:
    try:
        names = sorted(name for name in os.listdir(directory) if FILE.match(name))
    except OSError:
        return
    yield from (os.path.join(directory, name) for name in names[:MOST])
