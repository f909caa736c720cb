"""The error boundary of every command: an exception becomes one message and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec

import typer

from gpuplan.cli.console import Unwritable
from gpuplan.cli.interrupt import INTERRUPTED, NOTHING_CHANGED, Interrupt
from gpuplan.types.diagnostic import Diagnostic, Problem

Arguments = ParamSpec("Arguments")


def error_boundary(command: Callable[Arguments, int]) -> Callable[Arguments, int]:
    """Wrap a command for the parser."""

    @wraps(command)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> int:
        as_json = kwargs.get("as_json") is True
        try:
            return int(command(*args, **kwargs))
        except Problem as problem:
            return _report(problem, as_json)
        except KeyboardInterrupt as interrupt:
            print(f"\n{NOTHING_CHANGED}", file=sys.stderr)
            return interrupt.code if isinstance(interrupt, Interrupt) else INTERRUPTED
        except (typer.TyperException, typer.Exit, typer.Abort, BrokenPipeError, Unwritable):
            raise
        except Exception as error:  # noqa: BLE001  the last resort: the traceback is kept in a file
            return _report(Problem(_crash(error)), as_json)

    return run


def _report(problem: Problem, as_json: bool) -> int:
    from gpuplan.cli.console import Console
    from gpuplan.output.json import diagnostics_document

    console = Console(as_json)
    console.report(problem.diagnostics)
    console.print_document(diagnostics_document(), problem.exit_code)
    return int(problem.exit_code)


def _crash(error: Exception) -> Diagnostic:
    report = write_crash_report(error)
    return Diagnostic(
        "gpuplan crashed (internal error)",
        f"{type(error).__name__}: {error}",
        f"Please report this bug and attach {report}. Review the file first: it may quote your configuration."
        if report
        else "Please report this bug with the command that you ran. No crash report could be written to the state "
        "directory.",
    )


def write_crash_report(error: Exception) -> str:
    """Write the traceback to a file with mode 0600 in the state directory; its path, or empty if that fails."""
    import platform
    import traceback
    from datetime import UTC, datetime

    from gpuplan import __version__

    time = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    text = (
        f"gpuplan {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
        f"{time} {' '.join(sys.argv[1:2])}\n\n{''.join(traceback.format_exception(error))}"
    )
    try:
        directory = state_directory()
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = directory / f"crash-{time}-{os.getpid()}.txt"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        return ""
    return str(path)


def state_directory() -> Path:
    """$GPUPLAN_STATE_DIR, or the user's state directory."""
    if directory := os.environ.get("GPUPLAN_STATE_DIR"):
        return Path(directory)
    from platformdirs import user_state_path

    return user_state_path("gpuplan")
