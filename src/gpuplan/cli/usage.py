"""Runs the parser: what it cannot read is wrong usage, with exit code 64."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from gpuplan.cli.app import build
from gpuplan.model.diagnostic import Exit

PROGRAM = "gpuplan"


def run(argv: Sequence[str]) -> int:
    """Parse and run one command line; never raises."""
    try:
        code = typer.main.get_command(build()).main(args=list(argv), prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as fault:
        return _wrong(fault)
    except BrokenPipeError:
        return _nobody_reads()
    return code if isinstance(code, int) else int(Exit.DONE)


def _wrong(fault: typer.TyperException) -> int:
    context = getattr(fault, "ctx", None)
    command = getattr(context, "command_path", PROGRAM)
    message = fault.format_message()
    if message.startswith("Usage:"):  # no verb at all: the message is the whole help
        print(message, file=sys.stderr)
    else:
        print(f"{command}: {message}\nTry '{command} --help'.", file=sys.stderr)
    return int(Exit.USAGE)


def _nobody_reads() -> int:
    """The reader of a pipe has left; whatever Python would still flush into it goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    return int(Exit.ERROR)
