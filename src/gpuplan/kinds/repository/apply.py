"""Brings model files to a node, switches a model's directory, takes it away, and looks whether it is so."""

from __future__ import annotations

import io
import os
from contextlib import AbstractContextManager, nullcontext
from typing import BinaryIO

from gpuplan.kinds.repository.read import Observed, read
from gpuplan.kinds.repository.wanted import WantedFile, WantedModel, wanted_model
from gpuplan.kinds.room import Hands, Memory
from gpuplan.model.change import Step, Verb
from gpuplan.model.diagnostic import Diagnostic, Problem, Refused
from gpuplan.model.value import as_object

LARGE = 16 * 2**20
"""Bytes from which on a file is named while it is sent."""


def apply(step: Step, hands: Hands) -> Memory:
    """Do one step of a repository.

    Raises:
        Problem: the node or a source file is not as it must be, or the node is not as it was made.
        Refused: the agent could not do it.
    """
    container = str(step.arguments["container"])
    if step.verb is Verb.CREATE:
        hands.agent("repository.prepare", plan=hands.plan, container=container)
        _require(container in _look(hands).repositories, step, "the repository is not there")
        return ()
    if step.verb is Verb.UPDATE:
        _switch(step, hands, container, str(step.arguments["model"]))
    else:
        _remove(step, hands, container, step.arguments["model"])
    hands.agent("blob.collect")
    return ()


def _switch(step: Step, hands: Hands, container: str, model: str) -> None:
    wanted = wanted_model(step.arguments)
    _bring(step, hands, wanted)
    hands.agent("repository.prepare", plan=hands.plan, container=container)
    hands.agent(
        "repository.switch",
        plan=hands.plan,
        container=container,
        model=model,
        content=wanted.content,
        files={path: file.sha256 for path, file in wanted.files.items()},
    )
    found = _look(hands).repositories.get(container, {}).get(model, {})
    same = {path: file.sha256 for path, file in found.items()} == {p: file.sha256 for p, file in wanted.files.items()}
    _require(same, step, f"the files of {model} on the node are not those that were brought")


def _remove(step: Step, hands: Hands, container: str, model: object) -> None:
    hands.agent("repository.remove", plan=hands.plan, container=container, model=model)
    found = _look(hands).repositories
    if model is None:
        _require(container not in found, step, "the repository is still there")
    else:
        _require(model not in found.get(container, {}), step, f"the files of {model} are still there")


def _bring(step: Step, hands: Hands, wanted: WantedModel) -> None:
    """Send each content that the node does not have; two files of one content are sent once."""
    by_digest = {file.sha256: (path, file) for path, file in wanted.files.items() if file.sha256}
    missing = [by_digest[digest] for digest in hands.missing(list(by_digest))]
    needed = sum(file.size for _, file in missing)
    hands.say(f"{len(missing)} of {len(by_digest)} contents are new to the node ({needed:,} bytes)")
    _check_space(step, hands, needed)
    for path, file in missing:
        if file.size >= LARGE:
            hands.say(f"sending {path} ({file.size / 2**20:.0f} MiB)")
        _send(step, hands, file, needed)


def _send(step: Step, hands: Hands, file: WantedFile, needed: int) -> None:
    with _content(hands, file) as content:
        if content.seek(0, os.SEEK_END) != file.size:
            raise Problem(_changed(step, file))
        content.seek(0)
        try:
            hands.send(file.sha256, file.size, content)
        except Refused as refusal:
            if refusal.code == "corrupt":
                raise Problem(_changed(step, file)) from refusal
            if refusal.code == "disk_full":
                raise Problem(_no_space(step, needed, _free(hands))) from refusal
            raise


def _content(hands: Hands, file: WantedFile) -> AbstractContextManager[BinaryIO]:
    if file.text is not None:
        return nullcontext(io.BytesIO(file.text.encode("utf-8")))
    return hands.source(file.origin or "")


def _check_space(step: Step, hands: Hands, needed: int) -> None:
    free = _free(hands) if needed else None
    if free is not None and needed > free:
        raise Problem(_no_space(step, needed, free))


def _free(hands: Hands) -> int | None:
    """Bytes free where the node keeps model files; None where it does not say."""
    probe = hands.look("host").probe("host")
    if probe.error is not None:
        return None
    free = as_object(as_object(probe.value).get("disk") or {}).get("free")
    return free if isinstance(free, int) else None


def _look(hands: Hands) -> Observed:
    observed = read(hands.look("repository"))
    if observed.error is not None:
        detail = f"What was done could not be verified: {observed.error.text} ({observed.error.code})."
        raise Problem(Diagnostic("The second look failed", detail, "Run gpuplan plan again.", address=hands.node))
    return observed


def _require(so: bool, step: Step, otherwise: str) -> None:
    if not so:
        fix = "Somebody else may be changing the node at the same time; run gpuplan plan to see what it has now."
        detail = f"The agent reported success, and a second look finds that {otherwise}."
        raise Problem(Diagnostic("A step had no effect", detail, fix, address=str(step.address)))


def _changed(step: Step, file: WantedFile) -> Diagnostic:
    return Diagnostic(
        "A source file changed since the plan",
        f"{file.origin or 'a rendered file'} no longer has the content that was planned (SHA-256 {file.sha256[:12]}).",
        "Plan again, and review what has become of it.",
        address=str(step.address),
    )


def _no_space(step: Step, needed: int, free: int | None) -> Diagnostic:
    have = "an unknown number of" if free is None else f"{free:,}"
    inodes = " It may have run out of inodes." if free is not None and free >= needed else ""
    return Diagnostic(
        "The node has no room for the model files",
        f"{needed:,} bytes are to be brought, and {have} bytes are free where the node keeps them (/var/lib/gpuplan)."
        f"{inodes}",
        "Make room on the node, or take models away from it.",
        address=str(step.address),
    )
