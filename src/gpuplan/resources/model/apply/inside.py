"""Programs run inside a container, with what they read and what they write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuplan.types.diagnostic import Diagnostic, Problem

if TYPE_CHECKING:
    import docker

NOT_FOUND = (126, 127)
"""Exit codes by which an engine says that there is no such program."""


@dataclass(frozen=True)
class Ran:
    """A program that has ended."""

    code: int
    output: bytes
    complaint: str


def run(
    engine: docker.APIClient,
    container: str,
    argv: Sequence[str],
    given: bytes = b"",
    hear: Callable[[bytes], None] = lambda _: None,
) -> Ran:
    """Run a program to its end; `hear` gets its output as it comes.

    It must read exactly `given` and wait for no more, since its input is not closed before it ends.

    Raises:
        Problem: the engine refuses, or the connection broke.
    """
    from docker.errors import APIError
    from docker.utils.socket import demux_adaptor, frames_iter

    output, complaint = bytearray(), bytearray()
    try:
        identity = engine.exec_create(container, list(argv), stdin=bool(given))["Id"]
        stream = engine.exec_start(identity, socket=True)
        try:
            if given:
                stream._sock.sendall(given)  # type: ignore[union-attr]  # as the SDK itself reaches the socket
            for frame in frames_iter(stream, tty=False):  # type: ignore[no-untyped-call]  # the stubs leave it out
                said, cried = demux_adaptor(*frame)
                output += said or b""
                complaint += cried or b""
                if said:
                    hear(said)
        finally:
            stream._response.close()  # type: ignore[union-attr]  # else the connection, and its channel, stay open
        code = engine.exec_inspect(identity)["ExitCode"]
    except (APIError, OSError) as fault:
        raise Problem(
            Diagnostic("A program could not be run in a container", f"{container}: {argv[0]}: {fault}.")
        ) from fault
    return Ran(int(code or 0), bytes(output), complaint.decode("utf-8", "replace").strip())
