"""What a plan file refers to: GPUs and slices (``a100-0``, ``a100-0/cls-a``, ``h100[1]/small``), and paths."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Literal

from gpuplan.planfile.expand import device_names
from gpuplan.planfile.schema import GpuSection, PlanFile

_REFERENCE = re.compile(r"^(?P<gpu>[^/\[\]]+)(?:\[(?P<number>\d{1,4}|\*)\])?(?:/(?P<part>.+))?$")


def reference_problem(plan: PlanFile, reference: str) -> tuple[str, str] | None:
    """(what is wrong, what to do) of a reference to a GPU or a slice of this plan file; None where it is right."""
    match = _REFERENCE.match(reference)
    if match is None:
        return f"{reference!r} is not of the form GPU or GPU/SLICE.", "Write a name from gpus:, such as a100-0/cls-a."
    name, number, part = match["gpu"], match["number"], match["part"]
    gpu = plan.gpus.get(name)
    if gpu is None:
        return f"{reference!r} refers to the GPU {name}, which is not defined under gpus:.", nearest(name, plan.gpus)
    if number and gpu.select != "all":
        return f"{reference!r} has an index, but {name} is a single GPU.", f"Write {name}, or select: all."
    return _wrong_part(name, gpu, reference, part)


def nearest(name: str, known: Iterable[str]) -> str:
    """A suggestion, and all valid names where they are few."""
    names = list(known)
    close = get_close_matches(name, names, n=1)
    if close:
        return f"Did you mean {close[0]}?"
    return f"Valid here: {', '.join(names)}." if 0 < len(names) <= 12 else ""


def is_slice(reference: str) -> bool:
    """True for GPU/SLICE."""
    return "/" in reference


def _wrong_part(name: str, gpu: GpuSection, reference: str, part: str | None) -> tuple[str, str] | None:
    slices = list(device_names(gpu.mig))
    if part is None:
        if not slices:
            return None
        detail = f"{reference!r} is a whole GPU that is cut into MIG slices; containers can use only its slices."
        return detail, f"Write one of {', '.join(f'{name}/{each}' for each in slices)}."
    if part in slices:
        return None
    if not slices:
        detail = f"{reference!r} refers to a slice, but the GPU {name} has none."
        return detail, f"Add it under gpus.{name}.mig, or write {name} for the whole GPU."
    return _several(name, reference, part, slices) or (
        f"{reference!r} refers to the slice {part}, which the GPU {name} does not have.",
        nearest(part, slices),
    )


def _several(name: str, reference: str, part: str, slices: list[str]) -> tuple[str, str] | None:
    """A name that stands for several devices, of which a program can use one."""
    if f"{part}[0]" in slices:
        count = sum(each.startswith(f"{part}[") for each in slices)
        span = f"{name}/{part}[0] to {name}/{part}[{count - 1}]"
        fix = f"Write {span}, or each: {name}/{part}* for one container each."
        return f"{reference!r} stands for {count} slices.", fix
    if inside := [f"{name}/{each}" for each in slices if each.startswith((f"{part}/", f"{part}["))]:
        detail = f"{reference!r} is cut into {len(inside)} compute instances, and a container can use only one of them."
        return detail, f"Write one of {', '.join(inside)}."
    return None


def path_problem(plan: PlanFile, path: str, kind: Literal["file", "directory"]) -> tuple[str, str] | None:
    """(what is wrong, what to do) of a path next to the plan file; None where it is right.

    Only the path's text must stay inside the folder: a symbolic link may lead out of it, as large files often do.
    """
    pure = PurePosixPath(path)
    if not path or "\0" in path:
        return f"{path!r} is not a path.", f"Give the path of a {kind} in the plan file's folder."
    if pure.is_absolute() or ".." in pure.parts:
        what = "is an absolute path" if pure.is_absolute() else "contains '..'"
        detail = f"{path} {what}, but paths must stay within the plan file's folder."
        return detail, "Use a path relative to that folder; move the file there, or put a symbolic link there."
    try:
        found = Path(plan.path).parent / path
        there = found.is_dir() if kind == "directory" else found.is_file()
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}.", ""
    if there:
        return None
    if found.exists():
        return f"{path} is not a {kind}.", f"Give the path of a {kind} in the plan file's folder."
    return (
        f"The {kind} {path} does not exist in the plan file's folder.",
        f"Paths are relative to the folder of {plan.path}.",
    )
