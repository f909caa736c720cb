"""Looks whether a node has room for the model files that are to be brought, before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.repository.wanted import WantedFile, wanted_model
from gpuplan.types.change import Step, Verb
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.value import as_object

BLOCK = 4096
"""Bytes that a file takes at least; what ext4 and XFS give out."""


@dataclass(frozen=True)
class Need:
    """What files take on a disk."""

    bytes: int
    inodes: int


def foresee(steps: Sequence[Step], context: ApplyContext) -> None:
    """Before the first step of a node: is there room for what all of them bring?

    What they take away makes none: it serves until the new files are there, and goes last.

    Raises:
        Problem: there is not.
    """
    switches = [step for step in steps if step.verb is Verb.UPDATE]
    if not switches:
        return
    need, free = _need(switches, context), room(context)
    if free is not None and _exceeds(need, free):
        raise Problem(no_room(context.node, need, free, goes=len(switches) < len(steps)))


def require_room(step: Step, context: ApplyContext) -> None:
    """The same for one step, at its time; raises Problem."""
    need, free = _need([step], context), room(context)
    if free is not None and _exceeds(need, free):
        raise Problem(no_room(str(step.address), need, free))


def room(context: ApplyContext) -> Need | None:
    """What is free where the node keeps model files; None where it does not say."""
    probe = context.look("host").probe("host")
    if probe.error is not None:
        return None
    disk = as_object(as_object(probe.value).get("disk") or {})
    free, inodes = disk.get("free"), disk.get("inodes")
    if not isinstance(free, int):
        return None
    return Need(free, inodes if isinstance(inodes, int) else 1 << 62)


def no_room(address: str, need: Need, free: Need | None, *, goes: bool = False) -> Diagnostic:
    """The node's disk is too small; `goes` where something would be taken away afterwards."""
    where = "where the node keeps them (/var/lib/gpuplan)"
    if free is not None and free.bytes >= need.bytes and free.inodes < need.inodes:
        detail = f"{need.inodes:,} files and directories are to be made, and {free.inodes:,} inodes are free {where}."
    else:
        have = "an unknown number of" if free is None else f"{free.bytes:,}"
        detail = f"{need.bytes:,} bytes are to be brought, and {have} bytes are free {where}."
    fix = "Make room on the node, or take models away from it."
    if goes:
        fix += " What is taken away goes only once the new files are there: apply that alone first."
    return Diagnostic("The node has no room for the model files", detail, fix, address=address)


def _need(switches: Sequence[Step], context: ApplyContext) -> Need:
    """What is not there yet of all files, each content once, and the directories of each model."""
    models = [wanted_model(step.arguments) for step in switches]
    files: dict[str, WantedFile] = {
        file.sha256: file for model in models for file in model.files.values() if file.sha256
    }
    missing = context.missing(list(files))
    directories = sum(len({str(PurePosixPath(path).parent) for path in model.files}) + 2 for model in models)
    taken = sum(_blocks(files[digest].size - arrived) for digest, arrived in missing.items())
    return Need(taken, len(missing) + directories)


def _blocks(size: int) -> int:
    return -(-max(0, size) // BLOCK) * BLOCK


def _exceeds(need: Need, free: Need) -> bool:
    return need.bytes > free.bytes or need.inodes > free.inodes
