"""The edge of every verb: whatever it raises becomes one message and an exit code, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import typer

from gpuplan.cli import INTERRUPTED
from gpuplan.cli.interrupt import NOTHING_CHANGED, Interrupt
from gpuplan.cli.streams import Unwritable
from gpuplan.types.diagnostic import Diagnostic, Problem

Given = ParamSpec("Given")


def at_the_edge(verb: Callable[Given, int]) -> Callable[Given, int]:
    """The verb as the parser calls it."""

    @wraps(verb)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> int:
        try:
            return int(verb(*args, **kwargs))
        except Problem as problem:
            return _told(problem, kwargs.get("as_json") is True)
        except KeyboardInterrupt as stop:
            print(f"\n{NOTHING_CHANGED}", file=sys.stderr)
            return stop.code if isinstance(stop, Interrupt) else INTERRUPTED
        except (typer.TyperException, typer.Exit, typer.Abort, BrokenPipeError, Unwritable):
            raise
        except Exception as fault:  # noqa: BLE001 - the last resort: kept for a report, told in one message
            return _unforeseen(fault, kwargs.get("as_json") is True)

    return run


def _told(problem: Problem, as_json: bool) -> int:
    from gpuplan.cli.voice import Voice
    from gpuplan.output.json import told

    voice = Voice(as_json)
    voice.tell(problem.diagnostics)
    voice.answer(told(), problem.exit_code)
    return int(problem.exit_code)


def _unforeseen(fault: Exception, as_json: bool) -> int:
    from gpuplan.cli.crash import keep

    kept = keep(fault)
    return _told(
        Problem(
            Diagnostic(
                "gpuplan failed in a way that nobody foresaw",
                f"{type(fault).__name__}: {fault}",
                f"Please report this with {kept}; look through it first, it quotes what gpuplan was doing."
                if kept
                else "Please report this with what you did; the details could not be written to the state directory.",
            )
        ),
        as_json,
    )
