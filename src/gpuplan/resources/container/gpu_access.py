"""Toolkit: what of NVIDIA's container toolkit a node has, and so how its engine gives GPUs to containers."""

from __future__ import annotations

import enum
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.raw import mapping, mappings, texts
from gpuplan.types.change import FieldChange
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import JsonObject

HOOK, CDI_HOOK, WRITER = "nvidia-container-runtime-hook", "nvidia-cdi-hook", "nvidia-ctk"
FIRST_CDI = 25
"""The first Docker that gives devices by CDI, where its features turn that on."""
_PREFERS_CDI = 29
"""The first Docker that tries CDI before the hook for a request for GPUs (moby/moby#50228)."""


class GpuMethod(enum.Enum):
    """How an engine gives GPUs."""

    HOOK = "hook"
    """NVIDIA's hook asks the driver at each start."""
    CDI = "cdi"
    """By what a CDI specification lists."""
    NONE = "none"
    UNKNOWN = "unknown"
    """The node was not asked, or could not say."""


@dataclass(frozen=True)
class Specification:
    """One CDI specification of NVIDIA's."""

    path: str
    devices: tuple[str, ...] = ()
    fault: str = ""
    """Why it could not be read."""


@dataclass(frozen=True)
class Toolkit:
    """What the engine and the node say of NVIDIA's container toolkit."""

    known: bool = False
    tools: frozenset[str] = frozenset()
    specifications: tuple[Specification, ...] = ()
    char_links: bool | None = None
    """Whether /dev/char has links to the GPUs; None where there is nothing to link to."""
    cdi: bool = False
    """The engine gives devices by CDI where it is asked for them so."""
    version: str = ""
    podman: bool = False
    runtimes: frozenset[str] = frozenset()
    systemd: bool = False
    """systemd keeps the control groups of containers."""

    @property
    def way(self) -> GpuMethod:
        """How a container that is made now gets its GPUs."""
        if not self.known:
            return GpuMethod.UNKNOWN
        if self.podman:
            return GpuMethod.CDI
        if HOOK in self.tools:
            return GpuMethod.HOOK
        return GpuMethod.CDI if self.cdi else GpuMethod.NONE

    @property
    def reads_specifications(self) -> bool:
        """True where what a container gets depends on what the CDI specifications list."""
        tries_both = self.way is GpuMethod.HOOK and self.cdi and CDI_HOOK in self.tools
        return self.way is GpuMethod.CDI or (tries_both and self.major >= _PREFERS_CDI)

    @property
    def major(self) -> int:
        """The first number of the engine's version; 0 where it has none."""
        return int(match[0]) if (match := re.match(r"\d+", self.version)) else 0


def read_toolkit(snapshot: Snapshot) -> Toolkit:
    """The toolkit of a snapshot; not `known` where the node did not tell."""
    docker = mapping(snapshot.probe("docker").value)
    info, version = mapping(docker.get("info")), mapping(docker.get("version"))
    probe = snapshot.probe("toolkit")
    told = mapping(probe.value)
    links = told.get("char_links")
    components = [str(each.get("Name")) for each in mappings(version.get("Components"))]
    return Toolkit(
        known=probe.error is None and "tools" in told,
        tools=frozenset(name for name, path in mapping(told.get("tools")).items() if path),
        specifications=tuple(filter(_of_nvidia, map(_specification, mappings(told.get("cdi"))))),
        char_links=links if isinstance(links, bool) else None,
        cdi=bool(texts(info.get("CDISpecDirs"))),
        version=str(version.get("Version") or info.get("ServerVersion") or ""),
        podman=any(name.startswith("Podman") for name in components),
        runtimes=frozenset(mapping(info.get("Runtimes"))),
        systemd=info.get("CgroupDriver") == "systemd",
    )


def _of_nvidia(specification: Specification) -> bool:
    """Of one that could not be read only its name can tell; what may be another vendor's is never written anew."""
    return not specification.fault or posixpath.basename(specification.path).startswith("nvidia")


def _specification(raw: JsonObject) -> Specification:
    fault = str(mapping(raw.get("error")).get("text") or "")
    return Specification(str(raw.get("path") or ""), texts(raw.get("devices")), fault)


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


def compare_state(live: Live) -> tuple[FieldChange | None, tuple[str, ...]]:
    """The difference in its state, and why; None where it runs."""
    if live.status == "running":
        return None, ()
    memory = ", out of memory" if live.oom_killed else ""
    words = {
        "created": "it was created and has not been started",
        "paused": "it is paused",
        "restarting": f"it is in a restart loop: {live.restarts} restarts, last exit code {live.exit_code}{memory}",
    }.get(live.status, f"it ended with exit code {live.exit_code}{memory}")
    error = (f"the engine says: {live.error.strip().splitlines()[-1]}",) if live.error.strip() else ()
    return FieldChange("state", live.status, "running"), (gpus_missing_at_start(live) or words, *error)
