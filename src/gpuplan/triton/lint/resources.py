"""Checks of the rate limiter: what instances ask for against what the server's flags grant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuplan.triton.lint.check import Check, Effect, Family, Findings
from gpuplan.triton.lint.instances import groups
from gpuplan.triton.lint.repository import Repository, Subject, listed, number, objects, plain, text
from gpuplan.types.diagnostic import Location, Severity

OFF = Check("rate-limiter-off", "The rate limiter is off", Effect.IGNORED, Severity.WARNING)
LIMIT = Check("rate-limiter-resource", "An instance asks for more than there is", Effect.REFUSED)
SCOPE = Check("rate-limiter-scope", "A resource is both global and of each device", Effect.REFUSED)
_EVERY = -1
"""Stands for every device, as in rate_limiter.cc."""


@dataclass(frozen=True)
class Asked:
    """What one instance group asks for of one resource."""

    model: str
    resource: str
    count: int
    everywhere: bool
    """Of the whole server, not of the device that the instance is on."""
    devices: tuple[int, ...]
    where: Location


def asked(subject: Subject, repository: Repository) -> Iterator[Asked]:
    """Every resource that the groups of a model ask for."""
    for index, kind, group in groups(subject, repository.server):
        seen = tuple(range(len(repository.server.gpus or ()))) or (0,)
        named = tuple(number(each) for each in plain(group, "gpus")) or seen
        for place, resource in enumerate(listed(objects(group, "rate_limiter"), "resources")):
            yield Asked(
                subject.name,
                text(resource.get("name")),
                number(resource.get("count")),
                resource.get("global") is True,
                named if kind == "KIND_GPU" else (0,),
                subject.where("instance_group", index, "rate_limiter", "resources", place),
            )


def _off(subject: Subject, repository: Repository) -> Findings:
    server = repository.server
    if server.flags is None or server.flag("rate-limit")[-1:] == ("execution_count",):
        return
    for index, _, group in groups(subject, server):
        if "rate_limiter" in group:
            yield OFF.at(
                subject.where("instance_group", index, "rate_limiter"),
                f"{subject.name} states a rate_limiter, and {server.name} runs without --rate-limit: it is not heeded.",
                "Give the server --rate-limit=execution_count, or take rate_limiter out.",
            )


def _limits(subject: Subject, repository: Repository) -> Findings:
    server = repository.server
    granted = limits(server.flag("rate-limit-resource"))
    if server.flag("rate-limit")[-1:] != ("execution_count",) or not granted:
        return
    for each in asked(subject, repository):
        of = granted.get(each.resource, {})
        here = [max(of.get(device, 0), of.get(_EVERY, 0)) for device in each.devices]
        most = max(of.values(), default=0) if each.everywhere else min(here)
        if each.count > most:
            known = "which no --rate-limit-resource names" if not of else f"and it is limited to {most}"
            yield LIMIT.at(
                each.where,
                f"{each.model} asks for {each.count} of {each.resource}, {known}: no instance could ever run.",
                f"Give the server --rate-limit-resource={each.resource}:{each.count}, or ask for less.",
            )


def limits(values: tuple[str, ...]) -> Mapping[str, Mapping[int, int]]:
    """The values of --rate-limit-resource, ``NAME:COUNT[:DEVICE]``: resource → device → count; -1 is every device."""
    granted: dict[str, dict[int, int]] = {}
    for value in values:
        name, _, rest = value.partition(":")
        count, _, device = rest.partition(":")
        if count.isdecimal() and (device.isdecimal() or not device):
            granted.setdefault(name, {})[int(device) if device else _EVERY] = int(count)
    return granted


def _scope(repository: Repository) -> Findings:
    if repository.server.flag("rate-limit")[-1:] != ("execution_count",):
        return
    first: dict[str, Asked] = {}
    for subject in repository.models.values():
        for each in asked(subject, repository):
            other = first.setdefault(each.resource, each)
            if other.everywhere != each.everywhere:
                yield SCOPE.at(
                    each.where,
                    f"{each.resource} is global in one place and of each device in another "
                    f"({other.model}, {each.model}).",
                    "Say global: true everywhere, or nowhere.",
                )


FAMILY = Family((OFF, LIMIT, SCOPE), (_off, _limits), (_scope,))
