"""Checks of instance groups: where instances run, and whether the server sees such a place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuplan.triton.lint.check import (
    Check,
    CheckGroup,
    Effect,
    Findings,
    LintedModel,
    LintedRepository,
    TargetServer,
    listed,
    number,
    objects,
    plain,
    text,
)
from gpuplan.types.diagnostic import Location, Severity
from gpuplan.types.value import Json, JsonObject

GPU = Check("instance-group-gpu", "An instance group uses a GPU that does not exist", Effect.REFUSED)
KIND = Check("instance-group-kind", "An instance group without GPUs lists GPUs", Effect.REFUSED)
FAILOVER = Check("cpu-failover", "A CPU instance group is not a fallback", Effect.WRONG, Severity.WARNING)
PROFILE = Check("instance-group-profile", "Invalid optimization profile", Effect.REFUSED)
COUNT = Check("instance-group-count", "An instance group has no count", Effect.IGNORED, Severity.WARNING)
NAMES = Check("instance-group-name", "Two instance groups have the same name", Effect.WRONG, Severity.WARNING)
PASSIVE = Check("instance-group-passive", "All instances are passive", Effect.WRONG, Severity.WARNING)
NEEDS_GPU = Check("gpu-needed", "The backend runs only on GPUs", Effect.REFUSED)
FIELD = "instance_group"
_GPU_ONLY = ("tensorrt", "tensorrtllm")


def groups(model: LintedModel, server: TargetServer) -> Iterator[tuple[int, str, JsonObject]]:
    """Every instance group with its number and the kind that it comes to; empty where that is not known.

    KIND_AUTO means GPUs where there are any, and all that the group names are there.
    """
    for index, group in enumerate(listed(model.config, FIELD)):
        kind = text(group.get("kind")) or "KIND_AUTO"
        if kind == "KIND_AUTO":
            kind = _automatic(group, server)
        yield index, kind, group


def _automatic(group: JsonObject, server: TargetServer) -> str:
    if server.gpus is None:
        return ""
    there = range(len(server.gpus))
    return "KIND_GPU" if there and all(each in there for each in plain(group, "gpus")) else "KIND_CPU"


def instances(model: LintedModel, server: TargetServer) -> int:
    """How many instances of the model there will be; a group on GPUs has `count` on each."""
    total = 0
    for _, kind, group in groups(model, server):
        places = len(plain(group, "gpus")) or len(server.gpus or ()) or 1
        total += max(1, number(group.get("count"), 1)) * (places if kind == "KIND_GPU" else 1)
    if total:
        return total
    return max(1, len(server.gpus or ()))


def mapping(server: TargetServer) -> str:
    """Which GPU each number means inside the container: ``0 → a100-0/cls``."""
    return ", ".join(f"{index} → {device.name}" for index, device in enumerate(server.gpus or ()))


def _gpus(model: LintedModel, repository: LintedRepository) -> Findings:
    server = repository.server
    for index, kind, group in () if model.ensemble else groups(model, server):
        named = plain(group, "gpus")
        where = model.where(FIELD, index, "gpus" if named else "kind")
        if kind in ("KIND_CPU", "KIND_MODEL") and named:
            stated = text(group.get("kind")) or "KIND_AUTO"
            means = f", which here means {kind}" if stated != kind else ""
            detail = f"{model.name} has a group of {stated}{means}, and names the GPUs {_shown(named)}."
            fix = "Remove gpus, or write KIND_GPU."
            if means and server.gpus:
                detail = f"{detail[:-1]}; {server.name} sees {mapping(server)}."
            yield KIND.at(where, detail, fix)
        if kind != "KIND_GPU" or server.gpus is None:
            continue
        if not server.gpus:
            yield GPU.at(
                where,
                f"{model.name} has a group of KIND_GPU, and {server.name} sees no GPU.",
                "Give the container a GPU with gpus:, or write KIND_CPU.",
            )
        elif outside := [each for each in named if not 0 <= number(each, -1) < len(server.gpus)]:
            last = len(server.gpus) - 1
            valid = "only 0 is valid" if last == 0 else f"only 0..{last} are valid"
            yield GPU.at(
                where,
                f"{model.name} asks for GPU {_shown(outside)}, and {server.name} sees {mapping(server)}: {valid}.",
                "Numbers count the GPUs of the container from 0, whatever nvidia-smi calls them on the node.",
            )


def _failover(model: LintedModel, repository: LintedRepository) -> Findings:
    kinds = {kind: index for index, kind, _ in groups(model, repository.server)}
    if "KIND_GPU" in kinds and "KIND_CPU" in kinds:
        yield FAILOVER.at(
            model.where(FIELD, kinds["KIND_CPU"]),
            f"{model.name} has groups on GPU and CPU: both serve at once, so some requests are slow, and neither "
            "replaces the other.",
            "Keep one group. KIND_AUTO uses GPUs if there are any; it is decided once, at load time.",
        )


def _gpu_only(model: LintedModel, repository: LintedRepository) -> Findings:
    server = repository.server
    if model.backend not in _GPU_ONLY:
        return
    for index, kind, _ in groups(model, server):
        if kind == "KIND_CPU":
            detail = f"{model.name} has a group on the CPU, and the {model.backend} backend runs on GPUs only."
            yield NEEDS_GPU.at(model.where(FIELD, index), detail, "Write KIND_GPU.")
    if server.gpus == () and not listed(model.config, FIELD):
        detail = f"{model.name} is for the {model.backend} backend, and {server.name} sees no GPU."
        yield NEEDS_GPU.at(model.where(), detail, "Give the container a GPU with gpus:.")


def _shape(model: LintedModel, _: LintedRepository) -> Findings:
    stated = listed(model.config, FIELD)
    seen: set[str] = set()
    for index, group in enumerate(stated):
        name, count = text(group.get("name")), group.get("count")
        if name and name in seen:
            detail = f"{model.name} has two groups called {name}; their instances cannot be distinguished in metrics."
            yield NAMES.at(model.where(FIELD, index, "name"), detail, "Rename one.")
        seen.add(name)
        if count is not None and number(count) < 1:
            detail = f"{model.name} has a group of {count} instances; Triton makes one."
            yield COUNT.at(model.where(FIELD, index, "count"), detail, "State 1 or more.")
        yield from _profiles(model, index, group)
    if stated and all(group.get("passive") for group in stated):
        detail = f"All instances of {model.name} are passive, and no request ever reaches it."
        yield PASSIVE.at(model.where(FIELD), detail, "Leave one group active.")


def _profiles(model: LintedModel, index: int, group: JsonObject) -> Findings:
    profiles = plain(group, "profile")
    where = model.where(FIELD, index, "profile")
    if profiles and model.backend != "tensorrt":
        detail = f"{model.name} names optimization profiles, which TensorRT plans alone have."
        yield PROFILE.at(where, detail, "Remove profile.")
    elif wrong := [each for each in profiles if not text(each).isdecimal()]:
        yield PROFILE.at(where, f"{wrong[0]!r} is no optimization profile.", 'Write their numbers, such as ["0"].')


def _shown(numbers: Sequence[Json]) -> str:
    return ", ".join(map(str, numbers))


# Checks of the rate limiter: what instances ask for against what the server's flags grant.

OFF = Check("rate-limiter-off", "The rate limiter is off", Effect.IGNORED, Severity.WARNING)
LIMIT = Check("rate-limiter-resource", "An instance requests more of a resource than exists", Effect.REFUSED)
SCOPE = Check("rate-limiter-scope", "A resource is both global and per device", Effect.REFUSED)
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


def asked(model: LintedModel, repository: LintedRepository) -> Iterator[Asked]:
    """Every resource that the groups of a model ask for."""
    for index, kind, group in groups(model, repository.server):
        seen = tuple(range(len(repository.server.gpus or ()))) or (0,)
        named = tuple(number(each) for each in plain(group, "gpus")) or seen
        for place, resource in enumerate(listed(objects(group, "rate_limiter"), "resources")):
            yield Asked(
                model.name,
                text(resource.get("name")),
                number(resource.get("count")),
                resource.get("global") is True,
                named if kind == "KIND_GPU" else (0,),
                model.where("instance_group", index, "rate_limiter", "resources", place),
            )


def _off(model: LintedModel, repository: LintedRepository) -> Findings:
    server = repository.server
    if server.flags is None or server.flag("rate-limit")[-1:] == ("execution_count",):
        return
    for index, _, group in groups(model, server):
        if "rate_limiter" in group:
            yield OFF.at(
                model.where("instance_group", index, "rate_limiter"),
                f"{model.name} states a rate_limiter, and {server.name} runs without --rate-limit: it is ignored.",
                "Give the server --rate-limit=execution_count, or remove rate_limiter.",
            )


def _limits(model: LintedModel, repository: LintedRepository) -> Findings:
    server = repository.server
    granted = limits(server.flag("rate-limit-resource"))
    if server.flag("rate-limit")[-1:] != ("execution_count",) or not granted:
        return
    for each in asked(model, repository):
        of = granted.get(each.resource, {})
        here = [max(of.get(device, 0), of.get(_EVERY, 0)) for device in each.devices]
        most = max(of.values(), default=0) if each.everywhere else min(here)
        if each.count > most:
            known = "which no --rate-limit-resource names" if not of else f"and it is limited to {most}"
            yield LIMIT.at(
                each.where,
                f"{each.model} asks for {each.count} of {each.resource}, {known}: no instance can ever run.",
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


def _scope(repository: LintedRepository) -> Findings:
    if repository.server.flag("rate-limit")[-1:] != ("execution_count",):
        return
    first: dict[str, Asked] = {}
    for model in repository.models.values():
        for each in asked(model, repository):
            other = first.setdefault(each.resource, each)
            if other.everywhere != each.everywhere:
                yield SCOPE.at(
                    each.where,
                    f"{each.resource} is global in one place and of each device in another "
                    f"({other.model}, {each.model}).",
                    "Say global: true everywhere, or nowhere.",
                )


CHECKS = CheckGroup(
    checks=(
        GPU,
        KIND,
        FAILOVER,
        PROFILE,
        COUNT,
        NAMES,
        PASSIVE,
        NEEDS_GPU,
        OFF,
        LIMIT,
        SCOPE,
    ),
    model_checks=(
        _gpus,
        _failover,
        _gpu_only,
        _shape,
        _off,
        _limits,
    ),
    server_checks=(_scope,),
)
