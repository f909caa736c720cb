"""Looks whether a node has room for the model files that are to be brought, before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from gpuplan.kinds.repository.read import read
from gpuplan.kinds.repository.wanted import WantedFile, wanted_model
from gpuplan.kinds.room import Hands
from gpuplan.model.change import Step, Verb
from gpuplan.model.diagnostic import Diagnostic, Problem
from gpuplan.model.value import as_object

BLOCK = 4096
"""Bytes that a file takes at least; what ext4 and XFS give out."""


@dataclass(frozen=True)
class Need:
    """What files take on a disk."""

    bytes: int
    inodes: int


def foresee(steps: Sequence[Step], hands: Hands) -> None:
    """Before the first step of a node: is there room for what all of them bring, with what they take away?

    Raises:
        Problem: there is not.
    """
    switches = [step for step in steps if step.verb is Verb.UPDATE]
    if not switches:
        return
    need = _need(switches, hands)
    free = room(hands)
    if free is not None and _exceeds(need, free):
        gone = _taken_away([step for step in steps if step.verb is Verb.DELETE], hands)
        if _exceeds(need, Need(free.bytes + gone.bytes, free.inodes + gone.inodes)):
            raise Problem(no_room(hands.node, need, free))


def require_room(step: Step, hands: Hands) -> None:
    """The same for one step, at its time; raises Problem."""
    need, free = _need([step], hands), room(hands)
    if free is not None and _exceeds(need, free):
        raise Problem(no_room(str(step.address), need, free))


def room(hands: Hands) -> Need | None:
    """What is free where the node keeps model files; None where it does not say."""
    probe = hands.look("host").probe("host")
    if probe.error is not None:
        return None
    disk = as_object(as_object(probe.value).get("disk") or {})
    free, inodes = disk.get("free"), disk.get("inodes")
    if not isinstance(free, int):
        return None
    return Need(free, inodes if isinstance(inodes, int) else 1 << 62)


def no_room(address: str, need: Need, free: Need | None) -> Diagnostic:
    """The node's disk is too small."""
    where = "where the node keeps them (/var/lib/gpuplan)"
    if free is not None and free.bytes >= need.bytes and free.inodes < need.inodes:
        detail = f"{need.inodes:,} files and directories are to be made, and {free.inodes:,} inodes are free {where}."
    else:
        have = "an unknown number of" if free is None else f"{free.bytes:,}"
        detail = f"{need.bytes:,} bytes are to be brought, and {have} bytes are free {where}."
    fix = "Make room on the node, or take models away from it."
    return Diagnostic("The node has no room for the model files", detail, fix, address=address)


def _need(switches: Sequence[Step], hands: Hands) -> Need:
    """What is not there yet of all files, each content once, and the directories of each model."""
    models = [wanted_model(step.arguments) for step in switches]
    files: dict[str, WantedFile] = {
        file.sha256: file for model in models for file in model.files.values() if file.sha256
    }
    missing = hands.missing(list(files))
    directories = sum(len({str(PurePosixPath(path).parent) for path in model.files}) + 2 for model in models)
    taken = sum(_blocks(files[digest].size - arrived) for digest, arrived in missing.items())
    return Need(taken, len(missing) + directories)


def _taken_away(removals: Sequence[Step], hands: Hands) -> Need:
    """What goes with the models that are removed; a content that another one keeps does not."""
    there = read(hands.look("repository")).repositories
    going: dict[str, int] = {}
    staying: set[str] = set()
    for container, models in there.items():
        for model, files in models.items():
            sizes = {file.sha256: file.size for file in files.values() if file.sha256}
            if any(_removes(step, container, model) for step in removals):
                going |= sizes
            else:
                staying |= sizes.keys()
    sizes = {digest: size for digest, size in going.items() if digest not in staying}
    return Need(sum(map(_blocks, sizes.values())), len(sizes))


def _removes(step: Step, container: str, model: str) -> bool:
    arguments: Mapping[str, object] = step.arguments
    return arguments["container"] == container and arguments["model"] in (None, model)


def _blocks(size: int) -> int:
    return -(-max(0, size) // BLOCK) * BLOCK


def _exceeds(need: Need, free: Need) -> bool:
    return need.bytes > free.bytes or need.inodes > free.inodes
