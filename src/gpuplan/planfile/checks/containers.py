"""Checks of one container: its image, its GPUs, and what only model servers have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from gpuplan.planfile.checks.references import is_slice, nearest, path_problem, reference_problem
from gpuplan.planfile.expand import device_names
from gpuplan.planfile.schema import ContainerSection, PlanFile
from gpuplan.planfile.sources.repositories import repository_problem as wrong_repository
from gpuplan.planfile.sources.repositories import starts_itself
from gpuplan.resources.container.fields.networking import ServerPorts
from gpuplan.types.diagnostic import Diagnostic

OWN_LABELS = "gpuplan."


def check_container(plan: PlanFile, name: str, container: ContainerSection) -> Iterator[Diagnostic]:
    """Everything wrong with the container that its section alone, and the GPUs of the plan file, can tell."""
    path = ("containers", name)
    yield from _image(plan, name, container)
    yield from _gpus(plan, name, container)
    if container.each is not None:
        yield from _each(plan, name, container, container.each)
    if container.triton is not None:
        yield from _server(plan, name, container)
    elif isinstance(container.ports, ServerPorts):
        detail = f"{name} has no triton: section, but http, grpc and metrics are ports of a model server."
        fix = 'Add triton: {}, or write Docker\'s own form, such as ["8080:80"].'
        yield Diagnostic("Model server ports without triton", detail, fix, plan.where(*path, "ports"))
    yield from _labels_and_env(plan, name, container)


def _image(plan: PlanFile, name: str, container: ContainerSection) -> Iterator[Diagnostic]:
    path = ("containers", name)
    if not container.image and not container.archive:
        detail = f"{name} has neither image nor archive."
        yield Diagnostic("Container has no image", detail, "Add image: REPOSITORY:TAG.", plan.where(*path))
    if container.image is not None and re.search(r"\s", container.image):
        detail = f"The image {container.image!r} of {name} contains spaces."
        yield Diagnostic("Invalid image", detail, "Write REPOSITORY:TAG.", plan.where(*path, "image"))
    if container.archive is not None and (problem := path_problem(plan, container.archive, "file")):
        yield Diagnostic("Archive not found", *problem, plan.where(*path, "archive"))


def _each(plan: PlanFile, name: str, container: ContainerSection, each: str) -> Iterator[Diagnostic]:
    where = plan.where("containers", name, "each")
    if container.gpus:
        detail = f"{name} sets both each and gpus; with each, every container gets one slice."
        yield Diagnostic("Conflicting keys: each and gpus", detail, "Remove one of them.", where)
    if not is_slice(each):
        detail = f"{each!r} does not match slices; each creates one container per slice."
        yield Diagnostic("each matches no slice", detail, "Write GPU/SLICE, such as a100-0/small*.", where)
        return
    numbered = [gpu for gpu, section in plan.gpus.items() if section.select == "all"]
    if any(fnmatchcase(gpu, each.partition("/")[0].partition("[")[0]) for gpu in numbered):
        detail = f"{each!r} matches GPUs selected with `all`; only the node knows how many there are."
        yield Diagnostic(
            "each matches an unknown number of GPUs",
            detail,
            "Select the GPUs one by one, such as select: { index: 0 }.",
            where,
        )
        return
    known = [f"{gpu}/{part}" for gpu, section in plan.gpus.items() for part in device_names(section.mig)]
    if each not in known and not any(fnmatchcase(part, each) for part in known):
        yield Diagnostic(
            "each matches no slice", f"No slice of the plan file is {each!r}.", nearest(each, known), where
        )


def _server(plan: PlanFile, name: str, container: ContainerSection) -> Iterator[Diagnostic]:
    slices = [reference for reference in container.gpus if is_slice(reference)]
    if slices and len(container.gpus) > 1:
        detail = f"{name} uses {', '.join(container.gpus)}, but Triton is one process and can use only one MIG slice."
        fix = "Use one Triton per slice: set each: GPU/SLICE*, or define one container per slice."
        yield Diagnostic("Triton has more than one slice", detail, fix, plan.where("containers", name, "gpus"))
    if container.triton is not None and (problem := wrong_repository(container.triton.repository)):
        yield Diagnostic("Invalid model repository", *problem, plan.where("containers", name, "triton", "repository"))
    own = container.triton is not None and starts_itself(container.triton.repository)
    for key in ("command", "entrypoint"):
        if getattr(container, key) is not None and not own:
            detail = f"{name} states {key}, but gpuplan generates the command of a model server."
            fix = "Put Triton's options under triton.flags, or remove triton:."
            yield Diagnostic("Model server sets its own command", detail, fix, plan.where("containers", name, key))


def _gpus(plan: PlanFile, name: str, container: ContainerSection) -> Iterator[Diagnostic]:
    path = ("containers", name)
    for number, reference in enumerate(container.gpus):
        where = plan.where(*path, "gpus", number)
        if problem := reference_problem(plan, reference):
            yield Diagnostic("Unknown GPU", *problem, where)
        elif reference in container.gpus[:number]:
            yield Diagnostic("GPU listed twice", f"{name} lists {reference} twice.", "Remove one of them.", where)


def _labels_and_env(plan: PlanFile, name: str, container: ContainerSection) -> Iterator[Diagnostic]:
    path = ("containers", name)
    for label in container.labels:
        if label.startswith(OWN_LABELS):
            detail = f"{label} is reserved: gpuplan marks its own containers with it."
            yield Diagnostic("Reserved label", detail, "Use another name.", plan.where(*path, "labels", label))
    for key in container.env:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", key):
            detail = f"{key!r} in {name} is not the name of an environment variable."
            yield Diagnostic("Invalid name", detail, "Use letters, digits and '_'.", plan.where(*path, "env", key))
