"""Saved change sets: written with mode 0600, recognised by their content and protected by a digest."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path

from gpuplan.types.change import FORMAT, KIND, ChangeSet
from gpuplan.types.diagnostic import Diagnostic, Exit, Location, Problem
from gpuplan.types.value import Json, JsonObject

MARK = '"gpuplan change set"'
"""Found near the beginning of every saved change set."""
HEAD = 400
"""Characters of a file in which `MARK` is looked for."""
MAX_SIZE = 256 << 20
"""Bytes; a larger file is not read."""


def is_change_set(path: str) -> bool:
    """True if the file is a saved change set, whatever its name."""
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            head = file.read(HEAD)
    except OSError:
        return False
    return head.lstrip().startswith("{") and MARK in head


def read_change_set(path: str) -> tuple[ChangeSet, str]:
    """Read a change set and the path of the inventory that it was made with.

    Raises:
        Problem: the file cannot be read, is no change set, was edited or damaged, or has another format.
    """
    from gpuplan.core.plan.saved import read_change_set as restore

    document = _document(path)
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise Problem(_not_a_change_set(path), Exit.USAGE)
    if document.get("format") == FORMAT and document.get("digest") != _digest(document):
        raise Problem(_digest_mismatch(path))
    inventory = document.get("inventory")
    return restore(document, path), inventory if isinstance(inventory, str) else ""


def write_change_set(path: str, change_set: ChangeSet, inventory: str) -> None:
    """Save a change set atomically, with mode 0600.

    Raises:
        Problem: the file cannot be written.
    """
    from gpuplan.output.json import change_set_document as whole
    from gpuplan.output.json import json_text

    plain = json_text({**whole(change_set), "inventory": str(Path(inventory).absolute())})
    document: JsonObject = {**json.loads(plain), "digest": _digest(json.loads(plain))}
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(json_text(document) + "\n")
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Problem(_unwritable(path, error.strerror or str(error))) from error


def refuse_to_overwrite(path: str) -> None:
    """Make sure that only an older change set is overwritten.

    Raises:
        Problem: the path is something else, or its directory does not exist.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise Problem(_unwritable(path, f"the directory {target.parent} does not exist"))
    if target.is_dir() or (os.path.lexists(target) and not is_change_set(path)):
        raise Problem(
            Diagnostic(
                "Refusing to overwrite a file",
                f"{path} exists and is not a saved change set.",
                "Choose another name for --out, or remove the file.",
                where=Location(path),
            )
        )


def refuse_as_plan_file(path: str) -> None:
    """Check the path of a command that takes only plan files.

    Raises:
        Problem: it is a saved change set.
    """
    if is_change_set(path):
        raise Problem(
            Diagnostic(
                "Not a plan file",
                f"{path} is a change set saved by gpuplan plan --out; this command needs a plan file.",
                f"To review or apply it, run gpuplan show {path} or gpuplan apply {path}.",
                where=Location(path),
            ),
            Exit.USAGE,
        )


def _digest(document: JsonObject) -> str:
    """SHA-256 of everything but the digest, as ASCII JSON with sorted keys and without spaces."""
    content = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _document(path: str) -> Json:
    if not path:
        raise Problem(missing_path("a saved change set", "FILE"), Exit.USAGE)
    try:
        file = Path(path)
        if file.stat().st_size > MAX_SIZE:
            raise Problem(_unreadable(path, f"the file is larger than {MAX_SIZE >> 20} MiB"))
        text = file.read_text(encoding="utf-8", errors="replace")
        document: Json = json.loads(text)
    except OSError as error:
        raise Problem(_unreadable(path, error.strerror or str(error))) from error
    except (ValueError, RecursionError) as error:
        if not is_change_set(path):
            raise Problem(_not_a_change_set(path), Exit.USAGE) from error
        raise Problem(_unreadable(path, f"the file is damaged: {error}")) from error
    return document


def missing_path(what: str, argument: str) -> Diagnostic:
    """The path is empty, for example because a shell variable is not set."""
    return Diagnostic(
        "Empty path", f"This command needs {what}, but {argument} is empty.", f"Name the file in place of {argument}."
    )


def _not_a_change_set(path: str) -> Diagnostic:
    return Diagnostic(
        "Not a saved change set",
        f"{path} was not saved by gpuplan plan --out.",
        "Name a saved change set. To see what a plan file would change, run gpuplan plan.",
        where=Location(path),
    )


def _digest_mismatch(path: str) -> Diagnostic:
    return Diagnostic(
        "The saved change set was modified",
        f"The content of {path} does not match its digest: it was edited or damaged after it was saved.",
        "Save a new one: gpuplan plan PLAN -i INVENTORY --out FILE",
        where=Location(path),
    )


def _unreadable(path: str, why: str) -> Diagnostic:
    return Diagnostic(
        "Cannot read the saved change set",
        f"{path}: {why}.",
        "Save a new one: gpuplan plan PLAN -i INVENTORY --out FILE",
        where=Location(path),
    )


def _unwritable(path: str, why: str) -> Diagnostic:
    return Diagnostic(
        "Cannot save the change set",
        f"{path}: {why}.",
        "Choose a file for --out in a directory that you can write to.",
        where=Location(path),
    )
