"""Starting the bridge to the Docker engine at the other end of a pipe."""

from __future__ import annotations

import re
import time

from gpuplan.transport.agent_process import START
from gpuplan.transport.bundle import bridge_program, engine_socket
from gpuplan.transport.conversation import Pipe
from gpuplan.transport.start import explain_start
from gpuplan.types.diagnostic import Exit, Problem
from gpuplan.types.inventory import Host

CHATTER = 1 << 20
"""Bytes that may come before it."""
FIRST_WORD = re.compile(rb"gpuplan-bridge (\d+)\n")
"""What `agent/bridge.py` says; a login shell may have said something before it."""


def start_bridge(host: Host, pipe: Pipe) -> None:
    """Send the program and wait until it is connected; what comes after that is the engine's.

    Raises:
        Problem: the program did not start, or the engine cannot be reached.
    """
    from gpuplan.transport.engine import explain_engine

    said = b""
    until = time.monotonic() + START
    try:
        pipe.send(bridge_program())
        while (found := FIRST_WORD.search(said)) is None:
            piece = pipe.receive(max(0.0, until - time.monotonic()))
            if not piece or len(said) > CHATTER:
                raise ConnectionError
            said += piece
    except (OSError, EOFError) as error:
        raise Problem(explain_start(host.name, pipe.status(), pipe.complaint()), Exit.UNREAD) from error
    if number := int(found.group(1)):
        raise explain_engine(host.name, number, engine_socket(host))
