"""Secrets by reference, `${env:…}`, `${file:…}` and `${cmd:…}` in env values, resolved only where a run needs them."""

from __future__ import annotations

import os
import re
import selectors
import shlex
import stat
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpuplan.types.diagnostic import Diagnostic, Location, Problem, Severity
from gpuplan.types.value import Secret

# Secrets from a command of the operator's, run on this machine without a shell, bounded in time and size.

PATIENCE = 60.0
"""Seconds that a command may take, a passphrase that it asks for included."""
_PIECE = 65536
_LOOK = 0.05
"""Seconds after which it is seen that the process has ended."""


def output(command: str, base_dir: Path, environ: Mapping[str, str], longest: int) -> bytes:
    """What the command writes to standard output, run in the plan file's folder; the rest of what it says is dropped.

    Raises:
        LookupError: with what went wrong and what to do, and never a word of what the command said.
    """
    argv = _words(command)
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=base_dir,
            env=dict(environ),
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise LookupError(f"{_shown(command)} cannot be run: {why or 'it is no command'}.", _try(command)) from None
    with process:
        try:
            said = _read(process, longest)
            code = process.wait(timeout=PATIENCE)
        except (TimeoutError, subprocess.TimeoutExpired):
            raise LookupError(f"{_shown(command)} took longer than {PATIENCE:g} s.", _try(command)) from None
        finally:
            process.kill()
    if len(said) > longest:
        detail = f"{_shown(command)} writes more than {longest >> 20} MiB."
        raise LookupError(detail, "Name a command that writes only the secret.")
    if code != 0:
        raise LookupError(f"{_shown(command)} ended with exit code {code}.", _try(command))
    if not said.strip():
        raise LookupError(f"{_shown(command)} wrote nothing.", _try(command))
    return said


def _words(command: str) -> list[str]:
    try:
        argv = shlex.split(command)
    except ValueError as error:
        raise LookupError(f"{_shown(command)} is not understood: {error}.", "Quote it as a shell would.") from None
    if not argv:
        raise LookupError("A command of a secret is empty.", "Write ${cmd:PROGRAM ARGUMENTS}.")
    return argv


def _read(process: subprocess.Popen[bytes], longest: int) -> bytes:
    """Until it ends, or one byte more than is allowed; raises TimeoutError.

    A program that it left behind may keep the pipe open, so that nothing more is waited for once it has ended itself.
    """
    if process.stdout is None:
        raise ValueError("standard output is no pipe")
    until = time.monotonic() + PATIENCE
    said = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(said) <= longest:
            if time.monotonic() >= until:
                raise TimeoutError
            ended = process.poll() is not None
            if not selector.select(0.0 if ended else _LOOK):
                if ended:
                    return bytes(said)
                continue
            piece = os.read(process.stdout.fileno(), _PIECE)
            if not piece:
                return bytes(said)
            said += piece
    process.kill()
    return bytes(said)


def _shown(command: str) -> str:
    return f"The command {command!r}"


def _try(command: str) -> str:
    return f"Run it by hand to see what it says:\n    {command}"


if TYPE_CHECKING:
    from gpuplan.planfile.schema import PlanFile

LONGEST = 1024 * 1024
"""Bytes of a secret file; an environment of Docker takes far less."""
_REFERENCE = re.compile(r"\$\{(env|file|cmd):([^{}]+)\}")
_NOWHERE: Mapping[str, Location] = {}
_SAID: dict[tuple[str, Path], str] = {}
"""What commands said in this process: one that asks for a passphrase is not run for the plan and the apply each."""


def find_references(plan: PlanFile) -> tuple[tuple[str, Location], ...]:
    """Every env value with a reference in it, as it is written, and where: the raw text is what specs keep."""
    return tuple(
        (value, plan.where("containers", name, "env", key))
        for name, container in plan.containers.items()
        for key, value in container.env.items()
        if isinstance(value, str) and _REFERENCE.search(value)
    )


def resolve(plan: PlanFile, environ: Mapping[str, str], base_dir: Path) -> Mapping[str, Secret]:
    """Raw text → secret, for every reference of the plan file.

    Raises:
        Problem: with every variable that is not set and every file that cannot be read, each with its place.
    """
    places: dict[str, Location] = {}
    for raw, where in find_references(plan):
        places.setdefault(raw, where)
    return resolve_references(places, environ, base_dir, places)


def resolve_references(
    references: Iterable[str],
    environ: Mapping[str, str],
    base_dir: Path,
    places: Mapping[str, Location] = _NOWHERE,
) -> Mapping[str, Secret]:
    """Raw text → secret, and each reference within it by itself, since both are looked for in whatever is said.

    Files are relative to `base_dir`, the plan file's folder, and lose a line break at the end.

    Raises:
        Problem: with every variable that is not set, every file that cannot be read, and every command that fails.
    """
    result: dict[str, Secret] = {}
    faults: dict[tuple[str, str], Diagnostic] = {}
    read = _readers(environ, base_dir)
    for raw in references:
        pieces: list[str] = []
        end = 0
        for match in _REFERENCE.finditer(raw):
            kind, name = match.groups()
            try:
                text = "" if (kind, name) in faults else read[kind](name)
            except LookupError as error:
                detail, fix = error.args
                faults[(kind, name)] = Diagnostic("A secret is not to be had", detail, fix, places.get(raw))
                text = ""
            result[match[0]] = Secret(match[0], text)
            pieces += (raw[end : match.start()], text)
            end = match.end()
        result[raw] = Secret(raw, "".join((*pieces, raw[end:])))
    if faults:
        raise Problem(tuple(faults.values()))
    return result


def resolve_available(
    references: Iterable[str],
    environ: Mapping[str, str],
    base_dir: Path,
    places: Mapping[str, Location] = _NOWHERE,
) -> tuple[Mapping[str, Secret], tuple[Diagnostic, ...]]:
    """Raw text → secret for those that are to be had, and what is said of the others."""
    found: dict[str, Secret] = {}
    missing: dict[Diagnostic, None] = {}
    for raw in references:
        try:
            found.update(resolve_references([raw], environ, base_dir, places))
        except Problem as problem:
            missing.update(dict.fromkeys(problem.diagnostics))
    return found, tuple(missing)


def is_secret_reference(text: str) -> bool:
    """True where an env value holds a reference."""
    return _REFERENCE.search(text) is not None


def secret_warnings(plan: PlanFile, base_dir: Path, environ: Mapping[str, str]) -> tuple[Diagnostic, ...]:
    """Warnings for secret files that every user of this machine may read, and for secrets that are empty."""
    found: dict[tuple[str, str], Diagnostic] = {}
    for raw, where in find_references(plan):
        for kind, name in _REFERENCE.findall(raw):
            for summary, detail, fix in _doubts(kind, name, base_dir, environ):
                found.setdefault((summary, name), Diagnostic(summary, detail, fix, where, severity=Severity.WARNING))
    return tuple(found.values())


def _doubts(kind: str, name: str, base_dir: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    try:
        empty = kind != "cmd" and not _readers(environ, base_dir)[kind](name).strip()  # a command is run where needed
    except LookupError:
        return  # an error where the secret is needed
    if kind == "file" and _open_to_all(_path(base_dir, name)):
        detail = f"{name} holds a secret, and every user of this machine may read it."
        yield "A secret lies open", detail, f"chmod o-rwx {name}"
    if empty:
        what = f"The environment variable {name}" if kind == "env" else f"The file {name}"
        yield (
            "A secret is empty",
            f"{what} holds nothing, and that is what the container would get.",
            "Put the secret there.",
        )


def _readers(environ: Mapping[str, str], base_dir: Path) -> Mapping[str, Callable[[str], str]]:
    return {
        "env": partial(_from_environment, environ=environ),
        "file": partial(_from_file, base_dir),
        "cmd": partial(_from_command, base_dir, environ),
    }


def _from_environment(name: str, environ: Mapping[str, str]) -> str:
    if name not in environ:
        raise LookupError(f"The environment variable {name} is not set.", f"Set {name} before running gpuplan.")
    return environ[name]


def _path(base_dir: Path, name: str) -> Path:
    try:
        return base_dir / Path(name).expanduser()
    except RuntimeError:  # ~nobody-of-that-name
        return base_dir / name


def _from_file(base_dir: Path, name: str) -> str:
    fix = "Files of secrets are named relative to the plan file's folder."
    try:
        with _path(base_dir, name).open("rb") as stream:
            content = stream.read(LONGEST + 1)
        text = content.decode()
    except OSError as error:
        raise LookupError(f"The file {name} cannot be read: {error.strerror or error}.", fix) from None
    except ValueError:
        raise LookupError(f"The file {name} is not UTF-8 text, or its name is none.", fix) from None
    if len(content) > LONGEST:
        raise LookupError(
            f"The file {name} is larger than {LONGEST >> 20} MiB.", "Name the file that holds only the secret."
        )
    if "\0" in text:
        raise LookupError(f"The file {name} holds a NUL character, which no environment takes.", fix)
    return text.removesuffix("\n").removesuffix("\r")


def _from_command(base_dir: Path, environ: Mapping[str, str], command: str) -> str:
    key = (command, base_dir)
    if key not in _SAID:
        try:
            said = output(command, base_dir, environ, LONGEST).decode()
        except UnicodeDecodeError:
            said = "\0"
        if "\0" in said:
            detail = f"What the command {command!r} writes is not UTF-8 text that an environment takes."
            raise LookupError(detail, "Name a command that writes only the secret.")
        _SAID[key] = said.removesuffix("\n").removesuffix("\r")
    return _SAID[key]


def _open_to_all(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except (OSError, ValueError):
        return False
