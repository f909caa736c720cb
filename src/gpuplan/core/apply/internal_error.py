"""The unforeseen: a fault of ours at one node, told without hiding the other nodes."""

from __future__ import annotations

import traceback
from pathlib import Path

from gpuplan.types.diagnostic import Diagnostic


def internal_error(node: str, fault: Exception, doing: str) -> Diagnostic:
    """What is said of an exception that no part of gpuplan expected."""
    frames = traceback.extract_tb(fault.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return Diagnostic(
        "A fault in gpuplan",
        f"{doing} failed in a way that nobody foresaw: {type(fault).__name__}: {fault}{place}.",
        "Please report this, with the command and what gpuplan --version says.",
        address=node,
    )
