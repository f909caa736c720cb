"""Access: whether a container still reaches the GPUs that the engine says it has, and why it could not start."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.raw import mapping, texts
from gpuplan.types.change import FieldChange
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import JsonObject

FIELD = "gpu_access"
"""The field of this finding, which no configuration can differ in."""
UNKNOWN_ERROR = "Failed to initialize NVML: Unknown Error"
"""What programs in such a container say."""
_CONTROL = "nvidiactl"
"""Without this one nothing of the driver can be used."""
_GPU = re.compile(r"nvidia\d+")
_NOT_THERE = re.compile(
    r"nvidia-container-cli|no such device|unknown device|unresolvable CDI device|could not select device driver",
    re.IGNORECASE,
)
_NOT_STARTED = 128
"""The exit code that the engine gives a container whose start the runtime refused."""


def read_access(snapshot: Snapshot) -> Mapping[str, tuple[str, ...]]:
    """Container → device files that it has and may not open any more; one that could not be judged is absent."""
    found = mapping(mapping(snapshot.probe("access").value).get("containers"))
    return {container: files for container, told in found.items() if (files := _lost(mapping(told)))}


def access_lost(
    live: Live, denied: Mapping[str, tuple[str, ...]], systemd: bool
) -> tuple[FieldChange | None, tuple[str, ...]]:
    """The finding that a container lost its GPUs while nothing of its configuration changed."""
    files = denied.get(live.id, ()) if live.status == "running" else ()
    if not files:
        return None, ()
    what = f"GPU access is lost: its control group denies {_listed(files)}, so programs in it say “{UNKNOWN_ERROR}”"
    if systemd:
        why = "systemctl daemon-reload does this where systemd keeps the control groups of containers"
    else:
        why = "something wrote the device rules of its control group anew"
    return FieldChange(FIELD, "lost", "granted"), (what, f"{why}; only a new container gets its GPUs back")


def gpus_missing_at_start(live: Live) -> str:
    """Why a container is down that was started before the driver or its slices were there; empty for other reasons."""
    if live.status in ("exited", "created") and live.exit_code == _NOT_STARTED and _NOT_THERE.search(live.error):
        return "its GPUs were not there when it was started, as at a boot where containers come up before the driver"
    return ""


def _lost(told: JsonObject) -> tuple[str, ...]:
    """What is denied, where that is access to the driver; a file of a GPU that is another's may well be denied."""
    denied, gpus = texts(told.get("denied")), [name for name in texts(told.get("nodes")) if _GPU.fullmatch(name)]
    return denied if _CONTROL in denied or (gpus and set(gpus) <= set(denied)) else ()


def _listed(files: tuple[str, ...]) -> str:
    paths = [f"/dev/{name}" for name in files if not name.startswith("nvidia-cap")] or ["its device files"]
    return ", ".join(paths[:4]) + (", …" if len(paths) > 4 else "")
