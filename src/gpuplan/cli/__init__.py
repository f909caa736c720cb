"""The command line: argv → verb → exit code. The only place that prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

INTERRUPTED, HUNG_UP, TERMINATED = 130, 129, 143
"""128 + SIGINT, SIGHUP or SIGTERM, as shells have it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `argv` without the program's name, by default the process's own."""
    from gpuplan.cli.streams import closed, complain, no_input
    from gpuplan.cli.usage import run

    if missing := closed():
        complain(f"{missing}, so nothing was done; > /dev/null throws away what is not wanted")
        return 1
    no_input()
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")  # a terminal that has no “→” must not end a run
    code = run(sys.argv[1:] if argv is None else list(argv))
    if argv is None and code in (INTERRUPTED, HUNG_UP, TERMINATED):
        os._exit(code)  # threads that still wait for a node would hold the process back
    return code
