"""Checks of the server's own flags, where no plan file states them."""

from __future__ import annotations

from gpuplan.triton.lint.check import Check, Effect, Family, Findings
from gpuplan.triton.lint.repository import Repository
from gpuplan.triton.releases import release_of
from gpuplan.triton.server_flags import faults
from gpuplan.types.diagnostic import Severity

FLAG = Check("server-flag", "A flag that this Triton does not take", Effect.STOPS)
DEPRECATED = Check(
    "server-flag-advice", "A flag of Triton that does not do what it says", Effect.IGNORED, Severity.WARNING
)


def _flags(repository: Repository) -> Findings:
    server = repository.server
    release = release_of(f"tritonserver:{server.release}") if server.release else None
    for fault in () if server.flags_are_checked else faults(server.flags or {}, release):
        check = FLAG if fault.fatal else DEPRECATED
        yield check.at(server.where("triton", "flags", fault.flag), f"--{fault.flag}: {fault.why}.", fault.fix)


FAMILY = Family((FLAG, DEPRECATED), (), (_flags,))
