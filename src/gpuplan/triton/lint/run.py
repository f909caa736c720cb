"""Runs all checks over one repository, and holds back what the operator silenced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuplan.triton.lint import (
    batching,
    ensemble,
    files,
    growing,
    identity,
    instances,
    optimization,
    python,
    server,
    tensorrt,
    tensors,
)
from gpuplan.triton.lint.check import Check, Effect, LintedRepository
from gpuplan.types.diagnostic import Diagnostic, Location, Severity

_GROUPS = (
    files.CHECKS, identity.CHECKS, tensors.CHECKS, batching.CHECKS, instances.CHECKS, server.CHECKS,
    optimization.CHECKS, python.CHECKS, growing.CHECKS, tensorrt.CHECKS, ensemble.CHECKS,
)  # fmt: skip
IDLE = Check("silence-idle", "A silenced check has no findings", Effect.IGNORED, Severity.WARNING)
CHECKS: Mapping[str, Check] = {check.id: check for group in _GROUPS for check in group.checks} | {IDLE.id: IDLE}
"""Every check by its id."""


@dataclass(frozen=True)
class SilencedCheck:
    """One check that the operator holds back for one model, or for all where the model is empty.

    What no single model is to blame for is held back by any of them.
    """

    check: str
    reason: str
    model: str = ""
    where: Location | None = None


@dataclass
class LintResult:
    """What the checks found."""

    models: dict[str, list[Diagnostic]] = field(default_factory=dict)
    """By model, for those with findings."""
    server: list[Diagnostic] = field(default_factory=list)
    """What no single model is to blame for."""
    silenced: int = 0

    @property
    def all(self) -> tuple[Diagnostic, ...]:
        """Every finding."""
        return (*(each for found in self.models.values() for each in found), *self.server)


def lint(repository: LintedRepository, silences: Sequence[SilencedCheck] = ()) -> LintResult:
    """Run every check. A silenced check without findings is reported itself."""
    verdict, used = LintResult(), set[int]()
    for model, finding in _findings(repository):
        held = [
            index
            for index, silence in enumerate(silences)
            if silence.check == finding.check and (not model or silence.model in ("", model))
        ]
        if held:
            used.update(held)
            verdict.silenced += 1
        elif model:
            verdict.models.setdefault(model, []).append(finding)
        else:
            verdict.server.append(finding)
    verdict.server.extend(_idle(silence) for index, silence in enumerate(silences) if index not in used)
    return verdict


def known_check(name: str) -> Check | None:
    """The check of that id that may be silenced; None where there is none."""
    found = CHECKS.get(name)
    return None if found is None or found.fixed or found is IDLE else found


def _findings(repository: LintedRepository) -> Iterator[tuple[str, Diagnostic]]:
    """Each finding once, with the model that it is of."""
    seen: set[tuple[str, Diagnostic]] = set()
    for name, model in repository.models.items():
        for check in (check for group in _GROUPS for check in group.model_checks):
            for found in check(model, repository):
                if (name, found) not in seen:
                    seen.add((name, found))
                    yield name, found
    for whole in (check for group in _GROUPS for check in group.server_checks):
        yield from (("", found) for found in whole(repository))


def _idle(silence: SilencedCheck) -> Diagnostic:
    whose = f" of {silence.model}" if silence.model else ""
    detail = f"The check {silence.check}{whose} is silenced ({silence.reason}), but no longer has findings."
    return IDLE.at(silence.where or Location(""), detail, "Remove it from the list.")
