"""GPU access: how a node's engine gives GPUs to containers, whether a container still has them, and why it is down."""

from __future__ import annotations

import enum
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpuplan.resources.snapshot.containers import EngineContainer
from gpuplan.types.change import FieldChange
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import JsonObject, mapping, mappings, texts

HOOK, CDI_HOOK, WRITER = "nvidia-container-runtime-hook", "nvidia-cdi-hook", "nvidia-ctk"
FIRST_CDI = 25
"""The first Docker that gives devices by CDI, if its features enable that."""
_PREFERS_CDI = 29
"""The first Docker that tries CDI before the hook for a GPU request (moby/moby#50228)."""
FIELD = "gpu_access"
"""The field of lost access, which is part of no configuration."""
UNKNOWN_ERROR = "Failed to initialize NVML: Unknown Error"
"""The error of programs in a container that lost its GPUs."""
_CONTROL = "nvidiactl"
"""The device file without which nothing of the driver can be used."""
_GPU_FILE = re.compile(r"nvidia\d+")
_GPU_ERRORS = re.compile(
    r"nvidia-container-cli|no such device|unknown device|unresolvable CDI device|could not select device driver",
    re.IGNORECASE,
)
_START_REFUSED = 128
"""The exit code that the engine gives a container whose start the runtime refused."""


class GpuMethod(enum.Enum):
    """How an engine gives GPUs to containers."""

    HOOK = "hook"
    """NVIDIA's hook asks the driver at each start."""
    CDI = "cdi"
    """The devices that a CDI specification lists."""
    NONE = "none"
    UNKNOWN = "unknown"
    """The node did not report it."""


@dataclass(frozen=True)
class Specification:
    """One CDI specification of NVIDIA's devices."""

    path: str
    devices: tuple[str, ...] = ()
    fault: str = ""
    """Why it could not be read."""


@dataclass(frozen=True)
class Toolkit:
    """NVIDIA's container toolkit on the node, and what of the engine concerns it."""

    known: bool = False
    tools: frozenset[str] = frozenset()
    specifications: tuple[Specification, ...] = ()
    char_links: bool | None = None
    """Whether /dev/char has links to the GPUs; None if there is nothing to link to."""
    cdi: bool = False
    """The engine accepts device requests by CDI names."""
    version: str = ""
    podman: bool = False
    runtimes: frozenset[str] = frozenset()
    systemd: bool = False
    """systemd manages the control groups of containers."""

    @property
    def method(self) -> GpuMethod:
        """How a container that is created now gets its GPUs."""
        if not self.known:
            return GpuMethod.UNKNOWN
        if self.podman:
            return GpuMethod.CDI
        if HOOK in self.tools:
            return GpuMethod.HOOK
        return GpuMethod.CDI if self.cdi else GpuMethod.NONE

    @property
    def reads_specifications(self) -> bool:
        """True if the devices of a container depend on what the CDI specifications list."""
        tries_both = self.method is GpuMethod.HOOK and self.cdi and CDI_HOOK in self.tools
        return self.method is GpuMethod.CDI or (tries_both and self.major >= _PREFERS_CDI)

    @property
    def major(self) -> int:
        """The first number of the engine's version; 0 if it has none."""
        return int(match[0]) if (match := re.match(r"\d+", self.version)) else 0


def read_toolkit(snapshot: Snapshot) -> Toolkit:
    """The toolkit of a snapshot; not `known` if the node did not report it."""
    docker = mapping(snapshot.probe("docker").value)
    info, version = mapping(docker.get("info")), mapping(docker.get("version"))
    probe = snapshot.probe("toolkit")
    value = mapping(probe.value)
    links = value.get("char_links")
    components = [str(component.get("Name")) for component in mappings(version.get("Components"))]
    return Toolkit(
        known=probe.error is None and "tools" in value,
        tools=frozenset(name for name, path in mapping(value.get("tools")).items() if path),
        specifications=tuple(filter(_is_nvidias, map(_specification, mappings(value.get("cdi"))))),
        char_links=links if isinstance(links, bool) else None,
        cdi=bool(texts(info.get("CDISpecDirs"))),
        version=str(version.get("Version") or info.get("ServerVersion") or ""),
        podman=any(name.startswith("Podman") for name in components),
        runtimes=frozenset(mapping(info.get("Runtimes"))),
        systemd=info.get("CgroupDriver") == "systemd",
    )


def read_access(snapshot: Snapshot) -> Mapping[str, tuple[str, ...]]:
    """Container id → device files that it has and may no longer open; without those that could not be checked."""
    containers = mapping(mapping(snapshot.probe("access").value).get("containers"))
    return {container: files for container, access in containers.items() if (files := _denied(mapping(access)))}


def access_lost(
    live: EngineContainer, denied: Mapping[str, tuple[str, ...]], systemd: bool
) -> tuple[FieldChange | None, tuple[str, ...]]:
    """The difference that a container lost its GPUs although its configuration did not change, and the reasons."""
    files = denied.get(live.id, ()) if live.status == "running" else ()
    if not files:
        return None, ()
    paths = [f"/dev/{name}" for name in files if not name.startswith("nvidia-cap")] or ["its device files"]
    shown = ", ".join(paths[:4]) + (", …" if len(paths) > 4 else "")
    lost = f"it lost its GPUs: its control group denies {shown}, so programs in it fail with “{UNKNOWN_ERROR}”"
    if systemd:
        cause = "systemctl daemon-reload causes this if systemd manages the control groups of containers"
    else:
        cause = "the device rules of its control group were changed"
    return FieldChange(FIELD, "lost", "granted"), (lost, f"{cause}; only a new container gets the GPUs back")


def compare_state(live: EngineContainer) -> tuple[FieldChange | None, tuple[str, ...]]:
    """The difference in its state, and the reasons; None if it runs."""
    if live.status == "running":
        return None, ()
    memory = ", out of memory" if live.oom_killed else ""
    reason = {
        "created": "it was created but never started",
        "paused": "it is paused",
        "restarting": f"it is in a restart loop: {live.restarts} restarts, last exit code {live.exit_code}{memory}",
    }.get(live.status, f"it ended with exit code {live.exit_code}{memory}")
    refused = live.status in ("exited", "created") and live.exit_code == _START_REFUSED
    if refused and _GPU_ERRORS.search(live.error):
        reason = "its GPUs did not exist when it was started, for example because it started before the driver at boot"
    error = (f"engine error: {live.error.strip().splitlines()[-1]}",) if live.error.strip() else ()
    return FieldChange("state", live.status, "running"), (reason, *error)


def _is_nvidias(specification: Specification) -> bool:
    """An unreadable one is judged by its name only; one that may be another vendor's is never written."""
    return not specification.fault or posixpath.basename(specification.path).startswith("nvidia")


def _specification(raw: JsonObject) -> Specification:
    fault = str(mapping(raw.get("error")).get("text") or "")
    return Specification(str(raw.get("path") or ""), texts(raw.get("devices")), fault)


def _denied(access: JsonObject) -> tuple[str, ...]:
    """The denied files, if they keep the container from the driver; some GPUs may well be another container's."""
    denied, gpus = (
        texts(access.get("denied")),
        [name for name in texts(access.get("nodes")) if _GPU_FILE.fullmatch(name)],
    )
    return denied if _CONTROL in denied or (gpus and set(gpus) <= set(denied)) else ()
