"""Copies model files to a node, switches and removes models, and verifies each step; checks the disk space before."""

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
from gpuplan.resources.repository.spec import (
    CreateRepository,
    ModelFiles,
    RemoveModel,
    RemoveRepository,
    RepositoryFile,
    SwitchModel,
    payload_of,
)
from gpuplan.types.change import Step
from gpuplan.types.content import Content
from gpuplan.types.diagnostic import Diagnostic, Problem, Refused
from gpuplan.types.value import as_object

BLOCK = 4096
"""Bytes that a file takes at least (ext4, XFS)."""
UNLIMITED = 1 << 62
"""Inodes of a file system that does not count them."""


def apply_step(step: Step, context: ApplyContext) -> Facts:
    """Do one step of a repository.

    Raises:
        Problem: the disk is full, a source file changed, or the node does not show the step's effect.
        Refused: the agent could not do it.
    """
    match payload_of(step):
        case CreateRepository(container):
            context.agent("repository.prepare", plan=context.plan, container=container)
            _verify(container in _look(context).repositories, step, "the repository does not exist")
        case SwitchModel() as payload:
            _switch(step, context, payload)
        case RemoveModel(container, model):
            context.agent("repository.remove", plan=context.plan, container=container, model=model)
            models = _look(context).repositories.get(container, {})
            _verify(model not in models, step, f"the files of {model} still exist")
            context.agent("blob.collect")
        case RemoveRepository(container):
            context.agent("repository.remove", plan=context.plan, container=container, model=None)
            _verify(container not in _look(context).repositories, step, "the repository still exists")
            context.agent("blob.collect")
    return ()


def _switch(step: Step, context: ApplyContext, payload: SwitchModel) -> None:
    container, model = payload.container, payload.model
    _send(step, context, payload)
    context.agent("repository.prepare", plan=context.plan, container=container)
    digests = {path: file.sha256 for path, file in payload.files.files.items()}
    context.agent(
        "repository.switch",
        plan=context.plan,
        container=container,
        model=model,
        content=payload.files.content,
        files=digests,
    )
    observed = _look(context).repositories.get(container, {}).get(model, {})
    same = {path: file.sha256 for path, file in observed.items()} == digests
    _verify(same, step, f"the files of {model} are not those that were sent")


def _send(step: Step, context: ApplyContext, payload: SwitchModel) -> None:
    """Send each content that the node does not have, once."""
    by_digest = {file.sha256: file for file in payload.files.files.values() if file.sha256}
    missing = context.missing(list(by_digest))
    files = [by_digest[digest] for digest in missing]
    total = sum(file.size for file in files)
    arrived = sum(min(size, by_digest[digest].size) for digest, size in missing.items())
    context.say(f"{len(files)} of {len(by_digest)} files are new to the node ({total:,} bytes)")
    if arrived:
        context.say(f"resuming an interrupted transfer: {arrived:,} bytes are already on the node")
    _require_space(str(step.address), context, [payload.files])
    progress = _TransferProgress(context, f"{'resuming' if arrived else 'sending'} {payload.model}", total)
    try:
        context.send([Content(f.sha256, f.size, partial(_open, step, context, f)) for f in files], progress)
    except Refused as refusal:
        if refusal.code == "disk_full":
            needed = DiskSpace(total - arrived, len(files))
            raise Problem(_no_space(str(step.address), needed, free_space(context))) from refusal
        changed = [file for file in files if refusal.code == "corrupt" and _digest(step, context, file) != file.sha256]
        if changed:
            raise Problem([_source_changed(step, file) for file in changed]) from refusal
        raise


class _TransferProgress:
    """How many bytes of a transfer are on the node; called from several threads."""

    def __init__(self, context: ApplyContext, text: str, total: int) -> None:
        self._context = context
        self._text = text
        self._total = total
        self._done = 0
        self._lock = threading.Lock()

    def __call__(self, arrived: int) -> None:
        with self._lock:
            self._done += arrived
            self._context.progress(self._text, self._done, self._total)


@contextmanager
def _open(step: Step, context: ApplyContext, file: RepositoryFile) -> Iterator[BinaryIO]:
    """The content of a file; raises Problem if its size is not the planned one."""
    if file.text is not None:
        yield io.BytesIO(file.text.encode("utf-8"))
        return
    with context.source(file.source or "") as content:
        if content.seek(0, os.SEEK_END) != file.size:
            raise Problem(_source_changed(step, file))
        content.seek(0)
        yield content


def _digest(step: Step, context: ApplyContext, file: RepositoryFile) -> str:
    with _open(step, context, file) as content:
        sha256 = hashlib.sha256()
        for piece in iter(lambda: content.read(1 << 20), b""):
            sha256.update(piece)
        return sha256.hexdigest()


def _look(context: ApplyContext) -> ObservedRepositories:
    observed = read(context.look("repository"))
    if observed.error is not None:
        detail = f"The result of the step could not be read: {observed.error.text} ({observed.error.code})."
        fix = "Run gpuplan plan to see the current state of the node."
        raise Problem(Diagnostic("Cannot verify the step", detail, fix, address=context.node))
    return observed


def _verify(effective: bool, step: Step, otherwise: str) -> None:
    if not effective:
        detail = f"The agent reported success, but {otherwise}."
        fix = "Another process may be changing the node. Run gpuplan plan to see its current state."
        raise Problem(Diagnostic("The step had no effect", detail, fix, address=str(step.address)))


def _source_changed(step: Step, file: RepositoryFile) -> Diagnostic:
    return Diagnostic(
        "A source file changed since the plan",
        f"{file.source or 'A rendered file'} no longer has the planned content (SHA-256 {file.sha256[:12]}).",
        "Run gpuplan plan again and review the change.",
        address=str(step.address),
    )


@dataclass(frozen=True)
class DiskSpace:
    """Space on a disk."""

    bytes: int
    inodes: int

    def exceeds(self, free: DiskSpace) -> bool:
        """Whether it is more than what is free."""
        return self.bytes > free.bytes or self.inodes > free.inodes


def check_disk_space(steps: Sequence[Step], context: ApplyContext) -> None:
    """Before the first step of a node: the disk must have space for the files of all steps.

    Files to be removed are not counted: they are served until the new ones are there, and are removed last.

    Raises:
        Problem: there is not enough space.
    """
    payloads = [payload_of(step) for step in steps]
    models = [payload.files for payload in payloads if isinstance(payload, SwitchModel)]
    if models:
        _require_space(context.node, context, models, removes=len(models) < len(steps))


def free_space(context: ApplyContext) -> DiskSpace | None:
    """What is free on the disk that holds the node's model files; None if the node does not report it."""
    probe = context.look("host").probe("host")
    if probe.error is not None:
        return None
    disk = as_object(as_object(probe.value).get("disk") or {})
    free, inodes = disk.get("free"), disk.get("inodes")
    if not isinstance(free, int):
        return None
    return DiskSpace(free, inodes if isinstance(inodes, int) else UNLIMITED)


def _require_space(address: str, context: ApplyContext, models: Sequence[ModelFiles], *, removes: bool = False) -> None:
    needed, free = _needed_space(models, context), free_space(context)
    if free is not None and needed.exceeds(free):
        raise Problem(_no_space(address, needed, free, removes=removes))


def _needed_space(models: Sequence[ModelFiles], context: ApplyContext) -> DiskSpace:
    """The missing contents, each once, and the directories of each model."""
    files = {file.sha256: file for model in models for file in model.files.values() if file.sha256}
    missing = context.missing(list(files))
    directories = sum(len({str(PurePosixPath(path).parent) for path in model.files}) + 2 for model in models)
    size = sum(_round_up(files[digest].size - arrived) for digest, arrived in missing.items())
    return DiskSpace(size, len(missing) + directories)


def _round_up(size: int) -> int:
    return -(-max(0, size) // BLOCK) * BLOCK


def _no_space(address: str, needed: DiskSpace, free: DiskSpace | None, *, removes: bool = False) -> Diagnostic:
    """`removes`: files are removed after the new ones have been copied."""
    if free is None:
        detail = f"{needed.bytes:,} bytes are to be copied to /var/lib/gpuplan, but the disk is full."
    elif needed.bytes > free.bytes:
        detail = f"{needed.bytes:,} bytes are to be copied to /var/lib/gpuplan, but only {free.bytes:,} bytes are free."
    else:
        detail = f"{needed.inodes:,} files and directories are to be created in /var/lib/gpuplan, but only "
        detail += f"{free.inodes:,} inodes are free."
    fix = "Free space on the node, or remove models from the plan file."
    if removes:
        fix += " Removed models are deleted last: to use their space, apply their removal alone first."
    return Diagnostic("Not enough disk space for the model files", detail, fix, address=address)
