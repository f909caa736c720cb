"""Checks of TensorRT plans: whether the image and the GPU are those that they were built for.

A plan says in its header which TensorRT built it. What GPU it was built for stands in no documented place of it; a file
next to it may say so: ``model.plan.json`` (docs/checks.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuplan.triton.lint.check import (
    Check,
    CheckGroup,
    Effect,
    Findings,
    LintedModel,
    LintedRepository,
    TargetServer,
    objects,
    text,
)
from gpuplan.triton.releases import tensorrt_of
from gpuplan.types.diagnostic import Location, Severity
from gpuplan.types.value import JsonObject

PLAN = Check("tensorrt-plan", "Not a TensorRT plan", Effect.REFUSED)
VERSION = Check("tensorrt-version", "A TensorRT plan was built by another release", Effect.REFUSED)
CAPABILITY = Check("tensorrt-capability", "A TensorRT plan was built for another GPU", Effect.REFUSED)
SIDECAR = Check("tensorrt-sidecar", "Cannot read the description of a TensorRT plan", Effect.IGNORED, Severity.WARNING)

HEADER = 28
_TAG = b"ftrt"
_POINTER = b"version https://git-lfs"
"""The first words of a file that Git LFS has not brought yet."""
LONGEST = 64 << 10
_FROM_AMPERE = (8, 0)


@dataclass(frozen=True)
class Built:
    """What is known of how a plan was built; empty where it is not."""

    version: tuple[int, ...] = ()
    capability: str = ""
    hardware: str = ""
    """``ampere+`` or ``same-major`` where it was built to run on more than its own GPU."""
    versions: bool = False
    """True where it was built to run with later versions, too."""


def _plans(model: LintedModel, repository: LintedRepository) -> Findings:
    if model.backend != "tensorrt":
        return
    server = repository.server
    for version in model.wanted:
        for name in _names(model, server):
            path = f"{version}/{name}"
            if path not in model.files:
                continue
            where = Location(str(model.root / path))
            head = _head(model.files[path])
            if why := _no_plan(head):
                yield PLAN.at(where, f"{path} of {model.name} {why}.", "Use the plan that trtexec wrote.")
                continue
            description, fault = _description(model, path)
            if fault:
                yield SIDECAR.at(
                    Location(f"{where.file}.json"), f"{path}.json {fault}.", "The format is in docs/checks.md."
                )
            built = _built(head, description)
            yield from _version(model, path, where, built, server)
            yield from _capability(model, path, where, built, server)


def _names(model: LintedModel, server: TargetServer) -> Iterator[str]:
    """The plans that will be loaded: by the capability of the GPUs, where the config tells them apart."""
    by_capability = objects(model.config, "cc_model_filenames")
    known = [device.capability for device in server.gpus or () if device.capability in by_capability]
    if known:
        yield from dict.fromkeys(text(by_capability[each]) for each in known)
    elif not by_capability:
        yield from model.model_files


def _head(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(HEADER)
    except OSError:
        return b""


def _no_plan(head: bytes) -> str:
    if head.startswith(_POINTER):
        return "is a Git LFS pointer, not the plan itself (git lfs pull)"
    if len(head) == HEADER and head[:4] != _TAG:
        length = int.from_bytes(head[:4], "little")
        if 0 < length < LONGEST and head[4:5] == b"{":
            return "begins with the description that Ultralytics writes before a plan; TensorRT takes the plan alone"
        return "does not begin as a plan does (ftrt)"
    return "" if len(head) == HEADER else "is shorter than the header of a plan"


def _description(model: LintedModel, path: str) -> tuple[JsonObject, str]:
    """The description next to a plan, and why it cannot be read."""
    file = model.files.get(f"{path}.json")
    if file is None:
        return {}, ""
    try:
        with file.open("rb") as opened:
            found = json.loads(opened.read(LONGEST))
    except (OSError, ValueError):
        return {}, "is no JSON"
    return (found, "") if isinstance(found, dict) else ({}, "is no JSON object")


def _built(head: bytes, description: JsonObject) -> Built:
    # Bytes 24 to 27 are major, minor, patch and build, in serialization version 0 (printPlanVersion in TensorRT's
    # samples/common/sampleEngines.cpp). A build number above 255 does not fit, so the first three are compared.
    version = tuple(head[24:27]) if head[4:8] == bytes(4) else ()
    stated = text(description.get("tensorrt"))
    if not version and stated:
        version = tuple(int(part) for part in stated.split(".")[:3] if part.isdecimal())
    return Built(
        version,
        text(description.get("compute_capability")),
        text(description.get("hardware_compatibility")),
        description.get("version_compatible") is True,
    )


def _version(model: LintedModel, path: str, where: Location, built: Built, server: TargetServer) -> Findings:
    known = tensorrt_of(server.release)
    if not built.version or known is None or built.versions or _takes_others(server):
        return
    low, high = known
    if low <= built.version <= high:
        return
    here = _shown(low) if low == high else f"between {_shown(low)} and {_shown(high)}"
    yield VERSION.at(
        where,
        f"{path} of {model.name} was built by TensorRT {_shown(built.version)}, and release {server.release} has "
        f"TensorRT {here}.",
        "Build it in the image that serves it: /usr/src/tensorrt/bin/trtexec lies in there.",
    )


def _takes_others(server: TargetServer) -> bool:
    """True if the server is configured to load version-compatible plans."""
    return any(value.replace(" ", "") == "tensorrt,version-compatible=true" for value in server.flag("backend-config"))


def _capability(model: LintedModel, path: str, where: Location, built: Built, server: TargetServer) -> Findings:
    made = built.capability
    for device in server.gpus or ():
        theirs = device.capability
        if not made or not theirs or _runs(made, theirs, built.hardware):
            continue
        yield CAPABILITY.at(
            where,
            f"{path} of {model.name} was built for compute capability {made}, and {device.name} has {theirs}.",
            "Build it on that GPU, or name a plan for each under cc_model_filenames.",
        )
        return


def _runs(made: str, theirs: str, hardware: str) -> bool:
    if made == theirs:
        return True
    numbers = [tuple(map(int, each.split("."))) for each in (made, theirs) if each.replace(".", "").isdecimal()]
    if len(numbers) != 2:
        return True
    if hardware == "ampere+":
        return numbers[0] >= _FROM_AMPERE and numbers[1] >= _FROM_AMPERE
    return hardware == "same-major" and numbers[0][0] == numbers[1][0]


def _by_capability(model: LintedModel, repository: LintedRepository) -> Findings:
    """A GPU for which the config names no file gets the default one, which must then be there."""
    stated = objects(model.config, "cc_model_filenames")
    default = model.config.get("default_model_filename") or "model.plan"
    for device in repository.server.gpus or () if stated and model.backend == "tensorrt" else ():
        if not device.capability or device.capability in stated:
            continue
        missing = [version for version in model.wanted if not model.holds(f"{version}/{default}")]
        if missing:
            yield CAPABILITY.at(
                model.where("cc_model_filenames"),
                f"{device.name} has compute capability {device.capability}, for which {model.name} names no plan, "
                f"and {missing[0]}/{default} is not there.",
                f"Name a plan for {device.capability} under cc_model_filenames.",
            )
            return


def _shown(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


CHECKS = CheckGroup(
    checks=(
        PLAN,
        VERSION,
        CAPABILITY,
        SIDECAR,
    ),
    model_checks=(
        _plans,
        _by_capability,
    ),
)
