"""Running a program of the node, with a deadline that also holds where the program hangs in the driver."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from .failure import Failure


def run(argv: Sequence[str], seconds: float) -> tuple[int, str]:
    """Exit code and everything it said.

    Raises Failure: `no_tool` where there is no such program, `timeout` where it does not end in time. One that hangs
    in the driver cannot be killed, and so nobody waits for its end.
    """
    try:
        process = subprocess.Popen(
            list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except FileNotFoundError as error:
        raise Failure("no_tool", "{} is not on the node".format(argv[0])) from error
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        process.kill()
        raise Failure("timeout", "{} did not end within {:g} s".format(" ".join(argv), seconds)) from error
    return process.returncode, said.decode(errors="replace").strip()
