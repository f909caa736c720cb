"""Checks of instance groups: where instances run, and whether the server sees such a place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuplan.triton.lint.check import Check, Effect, Family, Findings
from gpuplan.triton.lint.repository import Repository, Server, Subject, listed, number, plain, text
from gpuplan.types.diagnostic import Severity
from gpuplan.types.value import Json, JsonObject

GPU = Check("instance-group-gpu", "An instance group asks for a GPU that is not there", Effect.REFUSED)
KIND = Check("instance-group-kind", "An instance group that is on no GPU names GPUs", Effect.REFUSED)
FAILOVER = Check("cpu-failover", "A CPU group is no fail-over", Effect.WRONG, Severity.WARNING)
PROFILE = Check("instance-group-profile", "An optimization profile does not fit", Effect.REFUSED)
COUNT = Check("instance-group-count", "An instance group has no count", Effect.IGNORED, Severity.WARNING)
NAMES = Check("instance-group-name", "Two instance groups have one name", Effect.WRONG, Severity.WARNING)
PASSIVE = Check("instance-group-passive", "All instances are passive", Effect.WRONG, Severity.WARNING)
NEEDS_GPU = Check("gpu-needed", "A backend that runs on GPUs only", Effect.REFUSED)
FIELD = "instance_group"
_GPU_ONLY = ("tensorrt", "tensorrtllm")


def groups(subject: Subject, server: Server) -> Iterator[tuple[int, str, JsonObject]]:
    """Every instance group with its number and the kind that it comes to; empty where that is not known.

    KIND_AUTO means GPUs where there are any, and all that the group names are there.
    """
    for index, group in enumerate(listed(subject.config, FIELD)):
        kind = text(group.get("kind")) or "KIND_AUTO"
        if kind == "KIND_AUTO":
            kind = _automatic(group, server)
        yield index, kind, group


def _automatic(group: JsonObject, server: Server) -> str:
    if server.gpus is None:
        return ""
    there = range(len(server.gpus))
    return "KIND_GPU" if there and all(each in there for each in plain(group, "gpus")) else "KIND_CPU"


def instances(subject: Subject, server: Server) -> int:
    """How many instances of the model there will be; a group on GPUs has `count` on each."""
    total = 0
    for _, kind, group in groups(subject, server):
        places = len(plain(group, "gpus")) or len(server.gpus or ()) or 1
        total += max(1, number(group.get("count"), 1)) * (places if kind == "KIND_GPU" else 1)
    if total:
        return total
    return max(1, len(server.gpus or ()))


def mapping(server: Server) -> str:
    """Which GPU each number means inside the container: ``0 → a100-0/cls``."""
    return ", ".join(f"{index} → {device.name}" for index, device in enumerate(server.gpus or ()))


def _gpus(subject: Subject, repository: Repository) -> Findings:
    server = repository.server
    for index, kind, group in () if subject.ensemble else groups(subject, server):
        named = plain(group, "gpus")
        where = subject.where(FIELD, index, "gpus" if named else "kind")
        if kind in ("KIND_CPU", "KIND_MODEL") and named:
            stated = text(group.get("kind")) or "KIND_AUTO"
            means = f", which here means {kind}" if stated != kind else ""
            detail = f"{subject.name} has a group of {stated}{means}, and names the GPUs {_shown(named)}."
            fix = "Take gpus out, or write KIND_GPU."
            if means and server.gpus:
                detail = f"{detail[:-1]}; {server.name} sees {mapping(server)}."
            yield KIND.at(where, detail, fix)
        if kind != "KIND_GPU" or server.gpus is None:
            continue
        if not server.gpus:
            yield GPU.at(
                where,
                f"{subject.name} has a group of KIND_GPU, and {server.name} sees no GPU.",
                "Give the container a GPU with gpus:, or write KIND_CPU.",
            )
        elif outside := [each for each in named if not 0 <= number(each, -1) < len(server.gpus)]:
            last = len(server.gpus) - 1
            valid = "only 0 is valid" if last == 0 else f"only 0..{last} are valid"
            yield GPU.at(
                where,
                f"{subject.name} asks for GPU {_shown(outside)}, and {server.name} sees {mapping(server)}: {valid}.",
                "Numbers count the GPUs of the container from 0, whatever nvidia-smi calls them on the node.",
            )


def _failover(subject: Subject, repository: Repository) -> Findings:
    kinds = {kind: index for index, kind, _ in groups(subject, repository.server)}
    if "KIND_GPU" in kinds and "KIND_CPU" in kinds:
        yield FAILOVER.at(
            subject.where(FIELD, kinds["KIND_CPU"]),
            f"{subject.name} has groups on GPU and CPU: both serve at once, so some requests are slow, and neither "
            "takes the place of the other.",
            "Keep one group; KIND_AUTO takes GPUs where there are any, once, at the load.",
        )


def _gpu_only(subject: Subject, repository: Repository) -> Findings:
    server = repository.server
    if subject.backend not in _GPU_ONLY:
        return
    for index, kind, _ in groups(subject, server):
        if kind == "KIND_CPU":
            detail = f"{subject.name} has a group on the CPU, and the {subject.backend} backend runs on GPUs only."
            yield NEEDS_GPU.at(subject.where(FIELD, index), detail, "Write KIND_GPU.")
    if server.gpus == () and not listed(subject.config, FIELD):
        detail = f"{subject.name} is for the {subject.backend} backend, and {server.name} sees no GPU."
        yield NEEDS_GPU.at(subject.where(), detail, "Give the container a GPU with gpus:.")


def _shape(subject: Subject, _: Repository) -> Findings:
    stated = listed(subject.config, FIELD)
    seen: set[str] = set()
    for index, group in enumerate(stated):
        name, count = text(group.get("name")), group.get("count")
        if name and name in seen:
            detail = f"{subject.name} has two groups called {name}; their instances cannot be told apart in metrics."
            yield NAMES.at(subject.where(FIELD, index, "name"), detail, "Rename one.")
        seen.add(name)
        if count is not None and number(count) < 1:
            detail = f"{subject.name} has a group of {count} instances; Triton makes one."
            yield COUNT.at(subject.where(FIELD, index, "count"), detail, "State 1 or more; no instance is no model.")
        yield from _profiles(subject, index, group)
    if stated and all(group.get("passive") for group in stated):
        detail = f"All instances of {subject.name} are passive, and no request ever reaches it."
        yield PASSIVE.at(subject.where(FIELD), detail, "Leave one group active.")


def _profiles(subject: Subject, index: int, group: JsonObject) -> Findings:
    profiles = plain(group, "profile")
    where = subject.where(FIELD, index, "profile")
    if profiles and subject.backend != "tensorrt":
        detail = f"{subject.name} names optimization profiles, which TensorRT plans alone have."
        yield PROFILE.at(where, detail, "Take profile out.")
    elif wrong := [each for each in profiles if not text(each).isdecimal()]:
        yield PROFILE.at(where, f"{wrong[0]!r} is no optimization profile.", 'Write their numbers, such as ["0"].')


def _shown(numbers: Sequence[Json]) -> str:
    return ", ".join(map(str, numbers))


FAMILY = Family((GPU, KIND, FAILOVER, PROFILE, COUNT, NAMES, PASSIVE, NEEDS_GPU), (_gpus, _failover, _gpu_only, _shape))
