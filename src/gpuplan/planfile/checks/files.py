"""Paths of a plan file: relative, and at or below its own folder, so that the folder can be moved as a whole."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Literal

from gpuplan.planfile.schema import PlanFile


def wrong_path(plan: PlanFile, path: str, kind: Literal["file", "directory"]) -> tuple[str, str] | None:
    """(what is wrong, what to do) of a path beside the plan file; None where it is right.

    Only the path's text must stay inside the folder: a symbolic link may lead out of it, as large files often do.
    """
    pure = PurePosixPath(path)
    if not path or "\0" in path:
        return f"{path!r} is not a path.", f"Name a {kind} beside the plan file."
    if pure.is_absolute() or ".." in pure.parts:
        what = "is an absolute path" if pure.is_absolute() else "holds '..'"
        detail = f"{path} {what}, and paths go from the plan file's folder down."
        return detail, "Write it from that folder on; what lies elsewhere is moved below it, or linked to."
    try:
        found = Path(plan.path).parent / path
        there = found.is_dir() if kind == "directory" else found.is_file()
    except OSError as error:
        return f"{path} cannot be looked at: {error.strerror or error}.", ""
    if there:
        return None
    if found.exists():
        return f"{path} is not a {kind}.", f"Name a {kind} beside the plan file."
    return f"There is no {kind} {path} beside the plan file.", f"Paths are relative to the folder of {plan.path}."
