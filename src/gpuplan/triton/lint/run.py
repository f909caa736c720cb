"""Runs all checks over one repository, and holds back what the operator silenced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuplan.triton.lint import (
    batching,
    cache,
    complete,
    engine,
    ensemble,
    files,
    flags,
    graph,
    growing,
    identity,
    instances,
    memory,
    metrics,
    optimization,
    parsing,
    python,
    resources,
    sequences,
    tensors,
    warmup,
)
from gpuplan.triton.lint.check import Check, Effect
from gpuplan.triton.lint.repository import Repository
from gpuplan.types.diagnostic import Diagnostic, Location, Severity

_FAMILIES = (
    parsing.FAMILY, identity.FAMILY, files.FAMILY, tensors.FAMILY, batching.FAMILY, sequences.FAMILY,
    instances.FAMILY, resources.FAMILY, cache.FAMILY, warmup.FAMILY, optimization.FAMILY, metrics.FAMILY,
    python.FAMILY, growing.FAMILY, engine.FAMILY, ensemble.FAMILY, graph.FAMILY, memory.FAMILY, flags.FAMILY,
    complete.FAMILY,
)  # fmt: skip
IDLE = Check("silence-idle", "A silenced check finds nothing", Effect.IGNORED, Severity.WARNING)
CHECKS: Mapping[str, Check] = {check.id: check for family in _FAMILIES for check in family.checks} | {IDLE.id: IDLE}
"""Every check by its id."""


@dataclass(frozen=True)
class Silence:
    """One check that the operator holds back for one model, or for all where the model is empty.

    What no single model is to blame for is held back by any of them.
    """

    check: str
    reason: str
    model: str = ""
    where: Location | None = None


@dataclass
class Verdict:
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


def judge(repository: Repository, silences: Sequence[Silence] = ()) -> Verdict:
    """Run every check. A silence that has nothing to hold back is told itself."""
    verdict, used = Verdict(), set[int]()
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


def _findings(repository: Repository) -> Iterator[tuple[str, Diagnostic]]:
    """Each finding once, with the model that it is of."""
    seen: set[tuple[str, Diagnostic]] = set()
    for name, subject in repository.models.items():
        for check in (check for family in _FAMILIES for check in family.models):
            for found in check(subject, repository):
                if (name, found) not in seen:
                    seen.add((name, found))
                    yield name, found
    for whole in (check for family in _FAMILIES for check in family.server):
        yield from (("", found) for found in whole(repository))


def _idle(silence: Silence) -> Diagnostic:
    whose = f" of {silence.model}" if silence.model else ""
    detail = f"The check {silence.check}{whose} is silenced ({silence.reason}), and finds nothing any more."
    return IDLE.at(silence.where or Location(""), detail, "Take it out of the list.")
