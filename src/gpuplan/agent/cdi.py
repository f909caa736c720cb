"""Having NVIDIA's CDI specifications written anew, as it takes after each change of slices."""

from __future__ import annotations

import os

from .failure import Failure
from .specifications import DIRECTORIES, FILE
from .world import World

WRITING = 60.0
"""Seconds that nvidia-ctk may take; it asks the driver for each device."""
LISTING = 30.0
"""Seconds that nvidia-smi may take."""
LONGEST_MESSAGE = 2000
"""Characters that are told of what nvidia-ctk said."""


def generate(world: World, path: str) -> dict[str, object]:
    """Have nvidia-ctk write a specification of what is there now.

    nvidia-smi goes first: it makes the device files of new slices, and without them the specification lacks those
    (NVIDIA/mig-parted#82). Raises Failure: `invalid`, `no_tool`, `timeout`, or `unexpected` with what nvidia-ctk said.
    """
    directory, name = os.path.split(path)
    if directory not in DIRECTORIES or not FILE.match(name):
        raise Failure("invalid", "not a place of a CDI specification: {!r}".format(path))
    try:
        world.run(["nvidia-smi", "-L"], LISTING)
    except Failure as failure:
        if failure.code != "no_tool":
            raise
    code, said = world.run(["nvidia-ctk", "cdi", "generate", "--output={}".format(path)], WRITING)
    if code:
        raise Failure("unexpected", "nvidia-ctk: {}".format(said[-LONGEST_MESSAGE:] or "exit code {}".format(code)))
    return {}
