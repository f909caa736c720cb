"""Standard output and standard error: what is said when one of them takes nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

STREAMS = {1: "standard output", 2: "standard error"}


class Unwritable(Exception):
    """A stream cannot be written to, such as a file on a full disk; the message says which and why."""


def closed() -> str:
    """What is wrong where the program was started without one of its streams; empty where both are there.

    Nothing may run then: the next file or socket that is opened would take the stream's number, and get its text.
    """
    missing = [name for stream, name in ((sys.stdout, STREAMS[1]), (sys.stderr, STREAMS[2])) if stream is None]
    return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} closed" if missing else ""


def no_input() -> None:
    """Where standard input is closed, let its number be taken by something that answers nothing."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123  open for as long as the program runs


@contextmanager
def writing(stream: IO[str]) -> Iterator[None]:
    """Text is written to the stream, and has left it at the end.

    Raises:
        Unwritable: it takes none.
        BrokenPipeError: its reader has left.
    """
    try:
        yield
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as fault:
        raise Unwritable(f"{_name(stream)} cannot be written to: {fault.strerror or fault}") from fault


def complain(what: str) -> None:
    """One plain message on whichever stream still takes it."""
    for stream in (sys.stderr, sys.stdout):
        with suppress(OSError, ValueError, AttributeError):
            stream.write(f"gpuplan: {what}.\n")
            stream.flush()
            return


def abandon() -> None:
    """Let whatever Python would still flush at its end go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(nowhere, stream.fileno())


def _name(stream: IO[str]) -> str:
    return STREAMS[2] if stream is sys.stderr else STREAMS[1]
