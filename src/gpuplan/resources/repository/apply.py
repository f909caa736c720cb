"""Brings model files to a node, switches a model's directory, takes it away, and looks whether it is so."""

from __future__ import annotations

import hashlib
import io
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import BinaryIO

from gpuplan.resources.kind import ApplyContext, Facts
from gpuplan.resources.repository.read import ObservedRepositories, read
from gpuplan.resources.repository.spec import ModelFiles, RepositoryFile, wanted_model
from gpuplan.types.change import Step, Verb
from gpuplan.types.content import Content
from gpuplan.types.diagnostic import Diagnostic, Problem, Refused
from gpuplan.types.value import as_object

# Looks whether a node has room for the model files that are to be brought, before anything is sent.

BLOCK = 4096
"""Bytes that a file takes at least; what ext4 and XFS give out."""


@dataclass(frozen=True)
class Need:
    """What files take on a disk."""

    bytes: int
    inodes: int


def preflight(steps: Sequence[Step], context: ApplyContext) -> None:
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
    models = [wanted_model(step.payload) for step in switches]
    files: dict[str, RepositoryFile] = {
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


class Progress:
    """How much of what is sent is on the node; heard of from several threads."""

    def __init__(self, context: ApplyContext, text: str, total: int) -> None:
        self._hands = context
        self._text = text
        self._total = total
        self._done = 0
        self._turn = threading.Lock()

    def __call__(self, more: int) -> None:
        """So many further bytes are there."""
        with self._turn:
            self._done += more
            self._hands.progress(self._text, self._done, self._total)


def apply_step(step: Step, context: ApplyContext) -> Facts:
    """Do one step of a repository.

    Raises:
        Problem: the node or a source file is not as it must be, or the node is not as it was made.
        Refused: the agent could not do it.
    """
    container = str(step.payload["container"])
    if step.verb is Verb.CREATE:
        context.agent("repository.prepare", plan=context.plan, container=container)
        _require(container in _look(context).repositories, step, "the repository is not there")
        return ()
    if step.verb is Verb.UPDATE:
        _switch(step, context, container, str(step.payload["model"]))
    else:
        _remove(step, context, container, step.payload["model"])
        context.agent("blob.collect")
    return ()


def _switch(step: Step, context: ApplyContext, container: str, model: str) -> None:
    wanted = wanted_model(step.payload)
    _bring(step, context, wanted)
    context.agent("repository.prepare", plan=context.plan, container=container)
    context.agent(
        "repository.switch",
        plan=context.plan,
        container=container,
        model=model,
        content=wanted.content,
        files={path: file.sha256 for path, file in wanted.files.items()},
    )
    found = _look(context).repositories.get(container, {}).get(model, {})
    same = {path: file.sha256 for path, file in found.items()} == {p: file.sha256 for p, file in wanted.files.items()}
    _require(same, step, f"the files of {model} on the node are not those that were brought")


def _remove(step: Step, context: ApplyContext, container: str, model: object) -> None:
    context.agent("repository.remove", plan=context.plan, container=container, model=model)
    found = _look(context).repositories
    if model is None:
        _require(container not in found, step, "the repository is still there")
    else:
        _require(model not in found.get(container, {}), step, f"the files of {model} are still there")


def _bring(step: Step, context: ApplyContext, wanted: ModelFiles) -> None:
    """Send each content that the node does not have; two files of one content are sent once."""
    by_digest = {file.sha256: file for file in wanted.files.values() if file.sha256}
    missing = context.missing(list(by_digest))
    files = [by_digest[digest] for digest in missing]
    total = sum(file.size for file in files)
    arrived = sum(min(there, by_digest[digest].size) for digest, there in missing.items())
    context.say(f"{len(files)} of {len(by_digest)} contents are new to the node ({total:,} bytes)")
    if arrived:
        context.say(f"going on where an earlier run was cut off: {arrived:,} bytes of it are there")
    require_room(step, context)
    doing = f"sending {step.payload['model']}{' from where it was cut off' if arrived else ''}"
    progress = Progress(context, doing, total)
    try:
        contents = [Content(file.sha256, file.size, partial(_opened, step, context, file)) for file in files]
        context.send(contents, progress)
    except Refused as refusal:
        if refusal.code == "disk_full":
            raise Problem(no_room(str(step.address), Need(total - arrived, len(files)), room(context))) from refusal
        changed = [file for file in files if refusal.code == "corrupt" and _digest(step, context, file) != file.sha256]
        if changed:
            raise Problem([_changed(step, file) for file in changed]) from refusal
        raise


@contextmanager
def _opened(step: Step, context: ApplyContext, file: RepositoryFile) -> Iterator[BinaryIO]:
    """The content of a file; raises Problem where it has another size than was planned."""
    if file.text is not None:
        yield io.BytesIO(file.text.encode("utf-8"))
        return
    with context.source(file.origin or "") as content:
        if content.seek(0, os.SEEK_END) != file.size:
            raise Problem(_changed(step, file))
        content.seek(0)
        yield content


def _digest(step: Step, context: ApplyContext, file: RepositoryFile) -> str:
    with _opened(step, context, file) as content:
        found = hashlib.sha256()
        for piece in iter(lambda: content.read(1 << 20), b""):
            found.update(piece)
        return found.hexdigest()


def _look(context: ApplyContext) -> ObservedRepositories:
    observed = read(context.look("repository"))
    if observed.error is not None:
        detail = f"What was done could not be verified: {observed.error.text} ({observed.error.code})."
        raise Problem(Diagnostic("The second look failed", detail, "Run gpuplan plan again.", address=context.node))
    return observed


def _require(so: bool, step: Step, otherwise: str) -> None:
    if not so:
        fix = "Somebody else may be changing the node at the same time; run gpuplan plan to see what it has now."
        detail = f"The agent reported success, and a second look finds that {otherwise}."
        raise Problem(Diagnostic("A step had no effect", detail, fix, address=str(step.address)))


def _changed(step: Step, file: RepositoryFile) -> Diagnostic:
    return Diagnostic(
        "A source file changed since the plan",
        f"{file.origin or 'a rendered file'} no longer has the content that was planned (SHA-256 {file.sha256[:12]}).",
        "Plan again, and review what has become of it.",
        address=str(step.address),
    )
