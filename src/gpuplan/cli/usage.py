"""Runs the parser: what it cannot read is wrong usage, with exit code 64."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from gpuplan.cli.app import build
from gpuplan.cli.streams import Unwritable, abandon, complain, writing
from gpuplan.types.diagnostic import Diagnostic, Exit

PROGRAM = "gpuplan"


def run(argv: Sequence[str]) -> int:
    """Parse and run one command line; never raises."""
    try:
        with writing(sys.stdout):
            return _run(argv)
    except BrokenPipeError:  # the reader of a pipe has left, and knows why
        abandon()
    except Unwritable as fault:
        complain(str(fault))
        abandon()
    return int(Exit.ERROR)


def _run(argv: Sequence[str]) -> int:
    try:
        code = typer.main.get_command(build()).main(args=list(argv), prog_name=PROGRAM, standalone_mode=False)
    except typer.TyperException as fault:
        return _wrong(fault, "--json" in argv)
    return code if isinstance(code, int) else int(Exit.DONE)


def _wrong(fault: typer.TyperException, as_json: bool) -> int:
    context = getattr(fault, "ctx", None)
    command = getattr(context, "command_path", PROGRAM)
    message = fault.format_message()
    no_verb = message.startswith("Usage:")  # the message is the whole help
    if as_json and not no_verb:
        _wrong_for_scripts(f"{command}: {message}", f"See {command} --help.")
    else:
        with writing(sys.stderr):
            print(message if no_verb else f"{command}: {message}\nTry '{command} --help'.", file=sys.stderr)
    return int(Exit.USAGE)


def _wrong_for_scripts(detail: str, fix: str) -> None:
    from gpuplan.cli.voice import Voice
    from gpuplan.output.json import told

    voice = Voice(as_json=True)
    voice.tell([Diagnostic("Wrong usage", detail, fix)])
    voice.answer(told(), Exit.USAGE)
