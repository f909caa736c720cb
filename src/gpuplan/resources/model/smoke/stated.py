"""The `smoke` sections of a plan file: what each asks, and whether that fits the model as the plan renders it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpuplan.planfile.checks.files import wrong_path
from gpuplan.planfile.expand import Placed
from gpuplan.planfile.schema import Content, Expected, Model, PlanFile, Smoke
from gpuplan.planfile.sources.configs import smoked_on
from gpuplan.resources.model.smoke.asked import INSTALL, Asked, has_grpc, protocol_of
from gpuplan.resources.model.smoke.fault import Fault
from gpuplan.resources.model.smoke.form import form_of
from gpuplan.resources.model.smoke.request import request_for
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.inventory import Host
from gpuplan.types.value import Json

if TYPE_CHECKING:
    from gpuplan.triton.lint import LintedModel

LARGEST_FILE = 1 << 28
"""Bytes of a file that fills an input."""


def asked_of(model: Model) -> Asked | None:
    """What a model's `smoke` asks; None where it has none."""
    stated = model.smoke
    if not isinstance(stated, Smoke):
        return Asked() if stated else None
    return Asked(
        inputs={name: _plain(value) for name, value in stated.inputs.items()},
        shapes=dict(stated.shapes),
        outputs={name: _plain(value) for name, value in stated.outputs.items()},
        batch=stated.batch,
        protocol=protocol_of(stated.protocol or ""),
        shared_memory=stated.shared_memory,
        timeout=stated.timeout,
        version=stated.version,
    )


def faults_on(plan: PlanFile, host: Host, home: Placed) -> Iterator[Diagnostic]:
    """What of the smoke sections does not fit the models of one container, or the container."""
    for name, subject in smoked_on(plan, host, home).items():
        asked = asked_of(plan.models[name])
        if asked is not None:
            for fault in _faults(plan, home, name, asked, subject):
                yield fault.at(plan.where("models", name, "smoke", *fault.path))


def read_beside(base: Path, plan: PlanFile | None, path: str) -> bytes:
    """A file beside the plan file; with `plan`, its path is checked first.

    Raises:
        Problem: it is not there, or too large.
    """
    if plan is not None and (told := wrong_path(plan, path, "file")):
        raise Problem(Diagnostic("A file of a smoke inference is not there", *told))
    try:
        with (base / path).open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as fault:
        raise Problem(
            Diagnostic("A file of a smoke inference cannot be read", f"{path}: {fault.strerror or fault}.")
        ) from None
    if len(content) > LARGEST_FILE:
        raise Problem(
            Diagnostic(
                "A file of a smoke inference is too large",
                f"{path} is larger than {LARGEST_FILE >> 20} MiB.",
                "A smoke inference asks whether a model answers; take a smaller one.",
            )
        )
    return content


def _faults(plan: PlanFile, home: Placed, name: str, asked: Asked, subject: LintedModel) -> Iterator[Fault]:
    form = form_of(subject.config)
    if form.inputs:  # else the server fills its config in, and what it takes is known only there
        made = request_for(name, asked, form, partial(read_beside, Path(plan.path).parent, plan))
        if isinstance(made, tuple):
            yield from made
    if asked.version is not None and subject.wanted and asked.version not in subject.wanted:
        served = ", ".join(map(str, subject.wanted))
        yield Fault(("version",), f"{name} will not serve version {asked.version}, but {served}.", "Name one of these.")
    if (asked.protocol == "grpc" or (form.decoupled and not asked.protocol)) and not has_grpc():
        why = "protocol says so" if asked.protocol else "it is decoupled"
        yield Fault(("protocol",), f"{name} is asked over gRPC, since {why}, and its library is not here.", INSTALL)
    if asked.shared_memory == "cuda" and not home.container.gpus:
        detail = f"CUDA shared memory lies on a GPU, and {home.path[1]} has none."
        yield Fault(("shared_memory",), detail, "Give the container a GPU, or take system shared memory.")


def _plain(value: object) -> Json:
    """A value of the plan file as JSON."""
    match value:
        case Content():
            return {"file": value.file}
        case Expected():
            stated = {"values": value.values, "file": value.file, "tolerance": value.tolerance}
            return {**{key: each for key, each in stated.items() if each is not None}, "finite": value.finite}
        case str() | int() | float() | bool() | None:
            return value
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case _:
            raise TypeError(f"not JSON: {type(value).__name__}")
