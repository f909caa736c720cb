"""Twins: two names of the inventory that turn out to be one machine; one plan file would undo what the other did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuplan.core.plan.observe import Answer
from gpuplan.core.plan.rebooted import boot_id
from gpuplan.types.diagnostic import Diagnostic


def told_apart(answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """The answers, without those of nodes that are one and the same machine.

    A boot id is random and new with each boot (random(4), /proc/sys/kernel/random/boot_id), so that two machines never
    share one.
    """
    names: dict[str, list[str]] = {}
    for answer in answers:
        if answer.snapshot is not None and (boot := boot_id(answer.snapshot)):
            names.setdefault(boot, []).append(answer.host.name)
    twins = {name: others for others in names.values() if len(others) > 1 for name in others}
    return tuple(_refused(answer, twins) for answer in answers)


def _refused(answer: Answer, twins: Mapping[str, Sequence[str]]) -> Answer:
    if answer.host.name not in twins:
        return answer
    names = " and ".join(twins[answer.host.name])
    diagnostic = Diagnostic(
        "Two nodes of the inventory are one machine",
        f"{names} answer with the same boot id, so they are one machine under several names.",
        "Correct ansible_host of one of them, or take it out of the inventory.",
        where=answer.host.where,
        address=answer.host.name,
    )
    return replace(answer, snapshot=None, problems=(diagnostic,))
