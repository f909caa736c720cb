"""Check of shared memory: whether the container has as much as its Python models take."""

from __future__ import annotations

from gpuplan.triton.lint.check import Check, Effect, Family, Findings
from gpuplan.triton.lint.instances import instances
from gpuplan.triton.lint.repository import Repository, Server
from gpuplan.triton.releases import python_region

SHARED = Check("shared-memory", "Too little shared memory for the Python models", Effect.REFUSED)
_MIB = 1 << 20


def _shared(repository: Repository) -> Findings:
    server = repository.server
    region = _region(server)
    counts = {
        name: instances(subject, server) * max(1, len(subject.wanted))
        for name, subject in repository.models.items()
        if subject.backend == "python"
    }
    total = sum(counts.values())
    if server.shm_size is None or not region or total * region <= server.shm_size:
        return
    models = ", ".join(f"{name} {count}" for name, count in counts.items())
    yield SHARED.at(
        server.where("shm_size"),
        f"{server.name} has {_shown(server.shm_size)} of shared memory, and its {total} instances of Python models "
        f"({models}) take {_shown(region)} each to begin with{_of(server)}: {_shown(total * region)}.",
        f"State shm_size: {max(1, -(-2 * total * region // _MIB))}MiB, which leaves room for what they exchange.",
    )


def _region(server: Server) -> int:
    """Bytes that one instance takes at its start; 0 where nobody knows."""
    for value in reversed(server.flag("backend-config")):
        name, _, size = value.partition("=")
        if name.replace(" ", "") == "python,shm-default-byte-size" and size.isdecimal():
            return int(size)
    return python_region(server.release)


def _of(server: Server) -> str:
    return f" in release {server.release}" if server.release else ""


def _shown(size: int) -> str:
    return f"{size // _MIB} MiB" if size % _MIB == 0 and size else f"{size} bytes"


FAMILY = Family((SHARED,), (), (_shared,))
