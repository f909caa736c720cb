"""Secrets from a command of the operator's, run on this machine without a shell, bounded in time and size."""

from __future__ import annotations

import os
import selectors
import shlex
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

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
