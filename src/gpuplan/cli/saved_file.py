"""Change sets as files: written for their owner alone, told from plan files by what is in them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path

from gpuplan.types.changeset import FORMAT, KIND, ChangeSet
from gpuplan.types.diagnostic import Diagnostic, Exit, Location, Problem
from gpuplan.types.value import Json, JsonObject

MARK = '"gpuplan change set"'
"""What stands near the beginning of every saved change set."""
HEAD = 400
LARGEST = 256 << 20
"""Bytes of a saved change set that are read."""


def is_change_set(path: str) -> bool:
    """True where the file is a saved change set, whatever it is called."""
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            head = file.read(HEAD)
    except OSError:
        return False
    return head.lstrip().startswith("{") and MARK in head


def read(path: str) -> tuple[ChangeSet, str]:
    """The change set in a file, and the inventory with which it was made.

    Raises:
        Problem: the file is not to be read, no change set, damaged, changed since, or of another format.
    """
    from gpuplan.core.plan.saved import restore

    document = _document(path)
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise Problem(_another_thing(path), Exit.USAGE)
    if document.get("format") == FORMAT and document.get("digest") != _digest(document):
        raise Problem(_changed(path))
    inventory = document.get("inventory")
    return restore(document, path), inventory if isinstance(inventory, str) else ""


def write(path: str, change_set: ChangeSet, inventory: str) -> None:
    """Save it, whole or not at all, with mode 0600.

    Raises:
        Problem: the folder does not let us.
    """
    from gpuplan.cli.voice import as_json_text
    from gpuplan.output.json_change_set import change_set as whole

    plain = as_json_text({**whole(change_set), "inventory": str(Path(inventory).absolute())})
    document: JsonObject = {**json.loads(plain), "digest": _digest(json.loads(plain))}
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(as_json_text(document) + "\n")
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as fault:
        raise Problem(_unwritable(path, fault.strerror or str(fault))) from fault


def refuse_to_overwrite(path: str) -> None:
    """Nothing but a former change set is ever overwritten.

    Raises:
        Problem: something else has that name, or its folder is not there.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise Problem(_unwritable(path, f"there is no folder {target.parent}"))
    if target.is_dir() or (os.path.lexists(target) and not is_change_set(path)):
        raise Problem(
            Diagnostic(
                "The file to save to holds something else",
                f"{path} is there and is not a change set, so it is not overwritten.",
                "Give --out another name, or remove the file.",
                where=Location(path),
            )
        )


def refuse_as_plan_file(path: str) -> None:
    """A verb that takes only plan files was given a path.

    Raises:
        Problem: it leads to a change set.
    """
    if is_change_set(path):
        raise Problem(
            Diagnostic(
                "This is a saved change set",
                f"{path} was saved by gpuplan plan --out; a plan file is wanted here.",
                f"Use gpuplan apply {path} or gpuplan show {path}.",
                where=Location(path),
            ),
            Exit.USAGE,
        )


def _digest(document: JsonObject) -> str:
    """SHA-256 of all but the digest itself, as JSON with sorted keys, without blanks, in ASCII."""
    content = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _document(path: str) -> Json:
    if not path:
        raise Problem(no_path("A saved change set", "FILE"), Exit.USAGE)
    try:
        file = Path(path)
        if file.stat().st_size > LARGEST:
            raise Problem(_unreadable(path, f"it is larger than {LARGEST >> 20} MiB"))
        text = file.read_text(encoding="utf-8", errors="replace")
        document: Json = json.loads(text)
    except OSError as fault:
        raise Problem(_unreadable(path, fault.strerror or str(fault))) from fault
    except (ValueError, RecursionError) as fault:
        if not is_change_set(path):
            raise Problem(_another_thing(path), Exit.USAGE) from fault
        raise Problem(_unreadable(path, f"it is damaged: {fault}")) from fault
    return document


def no_path(what: str, argument: str) -> Diagnostic:
    """An empty path was given, as an unset variable of a shell gives it."""
    return Diagnostic(
        "No path was given", f"{what} is wanted, and {argument} is empty.", f"Name the file in place of {argument}."
    )


def _another_thing(path: str) -> Diagnostic:
    return Diagnostic(
        "Not a change set",
        f"{path} is not what gpuplan plan --out saves.",
        "Name a saved change set; gpuplan plan shows what a plan file would change.",
        where=Location(path),
    )


def _changed(path: str) -> Diagnostic:
    return Diagnostic(
        "The change set was changed since it was saved",
        f"The content of {path} does not have the digest that was saved with it: it was edited or damaged.",
        "Make a new one: gpuplan plan PLAN -i INVENTORY --out FILE",
        where=Location(path),
    )


def _unreadable(path: str, why: str) -> Diagnostic:
    return Diagnostic(
        "A saved change set cannot be read",
        f"{path}: {why}.",
        "Make a new one: gpuplan plan PLAN -i INVENTORY --out FILE",
        where=Location(path),
    )


def _unwritable(path: str, why: str) -> Diagnostic:
    return Diagnostic(
        "The change set cannot be saved",
        f"{path}: {why}.",
        "Give --out a file in a folder that you may write to.",
        where=Location(path),
    )
