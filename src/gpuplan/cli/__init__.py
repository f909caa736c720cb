"""The command line: arguments → command → exit code. The only package that prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `argv` is without the program's name, by default the process's."""
    from gpuplan.cli.app import run_command_line
    from gpuplan.cli.console import closed_streams, print_plain_error, replace_closed_stdin
    from gpuplan.cli.interrupt import EXIT_CODES

    if closed := closed_streams():
        print_plain_error(f"{closed}, so nothing was done; redirect to /dev/null to discard output")
        return 1
    replace_closed_stdin()
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")  # a terminal that cannot show “→” must not end a run
    code = run_command_line(sys.argv[1:] if argv is None else list(argv))
    if argv is None and code in EXIT_CODES.values():
        os._exit(code)  # do not wait for threads that still wait for a node
    return code
