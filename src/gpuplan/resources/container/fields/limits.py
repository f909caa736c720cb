"""Fields that limit what a container takes of its node: memory, CPUs, processes, files, disks, kernel settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuplan.planfile.scalars import Section, Whole
from gpuplan.resources.container.fields.field import Field, Parts, Reading, TextMap
from gpuplan.resources.snapshot.containers import EngineContainer
from gpuplan.types.diagnostic import Severity
from gpuplan.types.value import Json, JsonObject, integer, mappings, texts

LEAST_MEMORY = 6 << 20
"""The engine refuses less (moby, daemon/daemon_unix.go)."""
DEFAULT_SHM_SIZE = 64 << 20
"""Bytes of shared memory that an engine gives if nothing is stated (moby, daemon/config)."""
_PERIOD = 100_000
"""Microseconds of a processor quota's period if the engine is given none."""
_LIMITS = (
    *("as", "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss"),
    *("rtprio", "rttime", "sigpending", "stack"),
)
"""Those of getrlimit(2)."""
_UNLIMITED = -1
_SYSCTL = re.compile(
    r"net\.\S+|fs\.mqueue\.\S+|kernel\.(domainname|msgmax|msgmnb|msgmni|sem|shmall|shmmax|shmmni|shm_rmid_forced)"
)
"""Those that a container has for itself (runc, libcontainer/configs/validate)."""
_CPUSET = re.compile(r"\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*", re.ASCII)


class Ulimit(Section):
    """One resource limit of the processes in a container."""

    soft: Whole
    hard: Whole


def check_memory(value: int, reading: Reading) -> None:
    """A memory limit of 0 is no limit."""
    if 0 < value < LEAST_MEMORY:
        detail = "The engine gives a container at least 6MiB."
        reading.problem("Memory limit is too low", detail, "Raise it, or leave it out.")


def check_shm_size(value: int, reading: Reading) -> None:
    """The engine takes 0 for its default; what lies in shared memory counts as memory."""
    if value == 0:
        detail = "The engine reads 0 as its default of 64MiB."
        reading.problem("Shared memory size is 0", detail, "Leave it out, or state a size.")
    if 0 < (reading.container.memory or 0) < value:
        detail = "Shared memory counts towards memory, so the container is killed before its shared memory is full."
        summary, fix = "Shared memory is larger than the memory limit", "Raise memory, or lower shm_size."
        reading.problem(summary, detail, fix, severity=Severity.WARNING)


def check_reservation(value: int, reading: Reading) -> None:
    """The soft limit has to be below the hard one."""
    limit = reading.container.memory or 0
    if 0 < value < LEAST_MEMORY:
        detail = "The engine reserves at least 6MiB."
        reading.problem("Memory reservation is too low", detail, "Raise it, or leave it out.")
    elif 0 < limit < value:
        detail = "memory_reservation is a soft limit below memory, and it is higher."
        reading.problem("Memory reservation is above the memory limit", detail, "Lower it, or raise memory.")


def check_swap(value: int, reading: Reading) -> None:
    """Memory and swap together, so it needs a memory limit and is not below it; -1 is unlimited swap."""
    limit = reading.container.memory or 0
    if value > 0 and not limit:
        detail = "memory_swap is the sum of memory and swap, and no memory is stated."
        reading.problem("Swap limit without a memory limit", detail, "State memory as well, or leave it out.")
    elif 0 < value < limit:
        detail = "memory_swap is the sum of memory and swap, so it cannot be lower than memory."
        reading.problem("Swap limit is below the memory limit", detail, "Raise it; equal to memory means no swap.")


def check_cpus(value: float, reading: Reading) -> None:
    """The engine takes a hundredth of a processor and more."""
    if value < 0.01:
        detail = "The engine gives a container at least 0.01 CPUs."
        reading.problem("CPU limit is too low", detail, "Raise it, or leave it out.")


def check_cpuset(value: str, reading: Reading) -> None:
    """Numbers of processors and ranges of them."""
    if not _CPUSET.fullmatch(value):
        detail = f"{value!r} is not a list of CPU numbers and ranges."
        reading.problem("CPU set is not valid", detail, 'Write "0-3" or "0,2,4-7".')


def cpuset(text: str) -> str:
    """``0,1,2,5`` and ``0-2,5`` are the same."""
    if not _CPUSET.fullmatch(text):
        return text
    bounds = [part.partition("-") for part in text.split(",")]
    numbers = sorted({n for low, _, high in bounds for n in range(int(low), int(high or low) + 1)})
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs) or text


def no_limit(value: int) -> int:
    """0, -1 and null are all no limit."""
    return max(value, 0)


@dataclass(frozen=True)
class Cpus(Field):
    """Processors; also if they were given as a quota of a period."""

    def parse(self, stated: Any, reading: Reading) -> Any:
        value = super().parse(stated, reading)
        return round(value * 1e9) / 1e9

    def encode(self, value: Any) -> Json:
        return round(float(value) * 1e9)

    def read(self, live: EngineContainer, networks: Mapping[str, str]) -> Parts:
        host: JsonObject = live.host_config
        quota, period = integer(host.get("CpuQuota")), integer(host.get("CpuPeriod")) or _PERIOD
        by_quota = round(max(quota, 0) / period * 1e9)
        return {"": (integer(host.get("NanoCpus")) or by_quota) / 1e9}

    def show(self, key: str, value: Json) -> Json:
        return None if value == 0 else value


@dataclass(frozen=True)
class Ulimits(TextMap):
    """Name → soft and hard limit."""

    def parse(self, stated: Any, reading: Reading) -> Any:
        value = {name: (n.soft, n.hard) if isinstance(n, Ulimit) else (n, n) for name, n in stated.items()}
        for name, (soft, hard) in value.items():
            _check_ulimit(name, soft, hard, reading)
        return value

    def parts(self, value: Any) -> Parts:
        return {name: list(pair) for name, pair in value.items()}

    def encode(self, value: Any) -> Json:
        return [{"Name": name, "Soft": soft, "Hard": hard} for name, (soft, hard) in value.items()]

    def decode(self, raw: Json) -> Parts:
        return {
            str(limit.get("Name")): [integer(limit.get("Soft")), integer(limit.get("Hard"))] for limit in mappings(raw)
        }

    def write(self, parts: Parts) -> Json:
        pairs = {name: pair if isinstance(pair, list) else [pair, pair] for name, pair in parts.items()}
        return {
            name: soft if soft == hard else {"soft": soft, "hard": hard} for name, (soft, hard) in pairs.items()
        } or None

    def show(self, key: str, value: Json) -> Json:
        return ":".join(texts(value))


@dataclass(frozen=True)
class Weights(TextMap):
    """Path of a disk → its weight."""

    def parse(self, stated: Any, reading: Reading) -> Any:
        for path, weight in stated.items():
            if not path.startswith("/dev/"):
                detail = f"{path!r} is not the path of a device file."
                reading.problem("Disk is not a device", detail, "Write /dev/sda: 300.", below=path)
            check_weight(weight, reading, path)
        return dict(stated)

    def encode(self, value: Any) -> Json:
        return [{"Path": path, "Weight": weight} for path, weight in value.items()]

    def decode(self, raw: Json) -> Parts:
        return {str(disk.get("Path")): integer(disk.get("Weight")) for disk in mappings(raw)}


def check_weight(value: int, reading: Reading, below: str = "") -> None:
    """The engine takes 10 to 1000; 0 is its default."""
    if value and not 10 <= value <= 1000:
        detail = f"{value} is outside the range from 10 to 1000."
        reading.problem("Disk weight is out of range", detail, "Write 10 to 1000, or leave it out.", below=below)


def check_sysctls(value: Mapping[str, str], reading: Reading) -> None:
    """A container can only have settings of namespaces of its own."""
    for name in value:
        if not _SYSCTL.fullmatch(name):
            detail = f"{name} applies to the whole node, so a container cannot have its own value."
            fix = "Set it on the node; a container can have net.*, fs.mqueue.* and the kernel.msg*, sem and shm* ones."
            reading.problem("Kernel setting applies to the whole node", detail, fix, below=name)
        elif name.startswith("net.") and reading.container.network == "host":
            detail = f"With network: host, {name} is the node's own."
            fix = "Set it on the node, or use another network."
            reading.problem("Kernel setting applies to the whole node", detail, fix, below=name)


def check_storage(value: Mapping[str, str], reading: Reading) -> None:
    """`size` is the only option that the engine's storage drivers for Linux take of a container."""
    for name in value.keys() - {"size"}:
        detail = f"{name} is not an option of a container's storage."
        reading.problem("Storage option is unknown", detail, "Write size: 20G.", below=name)


def _check_ulimit(name: str, soft: int, hard: int, reading: Reading) -> None:
    if name not in _LIMITS:
        valid = f"Valid here: {', '.join(_LIMITS)}."
        reading.problem("Resource limit is unknown", f"Linux has no limit called {name}.", valid, below=name)
    elif min(soft, hard) < _UNLIMITED:
        detail = f"{name} is {soft}:{hard}; -1 means unlimited, and lower values are not valid."
        reading.problem("Resource limit is not valid", detail, "Write -1 or more.", below=name)
    elif hard != _UNLIMITED and (soft > hard or soft == _UNLIMITED):
        detail = f"The soft limit of {name} is {soft}, and its hard limit is {hard}."
        reading.problem("Soft limit is above the hard limit", detail, "Raise hard, or lower soft.", below=name)
