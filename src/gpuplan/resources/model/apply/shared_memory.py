"""A region of shared memory inside a container: made and filled there, known to the server, read back, and removed."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gpuplan.resources.model.apply.inside import NOT_FOUND, Ran, run
from gpuplan.types.diagnostic import Diagnostic, Problem

if TYPE_CHECKING:
    import docker
    from tritonclient.http import InferenceServerClient
    from tritonclient.utils import InferenceServerException

DIRECTORY = "/dev/shm"  # noqa: S108 - the container's own; the name in it is random
NAME = re.compile(r"^gpuplan-smoke-[0-9a-f]{16}$")
PIECE = 1 << 16
"""Bytes that are written in one go."""


class Region(Protocol):
    """A region that the server knows."""

    @property
    def name(self) -> str:
        """By which the server knows it."""
        ...

    def read(self) -> bytes:
        """All that it holds now; raises Problem where it cannot be read."""
        ...


@dataclass(frozen=True)
class Inside:
    """The container in which a region lies."""

    engine: docker.APIClient
    container: str
    """Its id."""
    called: str
    """Its name, for messages."""

    def run(self, argv: Sequence[str], given: bytes = b"", hear: Callable[[bytes], None] = lambda _: None) -> bytes:
        """A program's output, which `hear` gets as it comes; raises Problem where it fails."""
        ran = run(self.engine, self.container, argv, given, hear)
        if ran.code:
            raise Problem(self._failed(argv[0], ran))
        return ran.output

    def _failed(self, program: str, ran: Ran) -> Diagnostic:
        words = ran.complaint or ran.output.decode("utf-8", "replace").strip()
        if ran.code in NOT_FOUND:
            detail = f"{self.called} has no {program}: {words}."
            fix = "Take an image that has one, or write shared_memory: none."
        else:
            detail = f"{program} in {self.called} ended with {ran.code}: {words}."
            fix = f"Is {DIRECTORY} large enough? See shm_size of the container."
        return Diagnostic("Shared memory could not be used", detail, fix)


@dataclass(frozen=True)
class Shared:
    """A file in the container's own /dev/shm."""

    inside: Inside
    name: str
    size: int

    @property
    def path(self) -> str:
        """Where it lies."""
        return f"{DIRECTORY}/{self.name}"

    def read(self) -> bytes:
        """See Region.read."""
        return self.inside.run(["head", "-c", str(self.size), self.path])


@contextmanager
def shared(inside: Inside, content: bytes) -> Iterator[Shared]:
    """A file of this content in the container's /dev/shm, removed afterwards whatever happens.

    Raises:
        Problem: it cannot be made.
    """
    region = Shared(inside, f"gpuplan-smoke-{secrets.token_hex(8)}", len(content))
    if not NAME.match(region.name):
        raise ValueError(f"not a name of ours: {region.name!r}")
    try:
        size = [f"bs={PIECE}", f"count={len(content)}", "iflag=fullblock,count_bytes", "status=none"]
        inside.run(["dd", f"of={region.path}", *size], content)
        yield region
    finally:
        with suppress(Problem):  # the container went away, and its memory with it; the reason is told already
            inside.run(["rm", "-f", region.path])


@contextmanager
def system_region(inside: Inside, content: bytes, client: InferenceServerClient) -> Iterator[Shared]:
    """A region of system shared memory that the server has mapped.

    Raises:
        Problem: it cannot be made, or the server refuses it.
    """
    from tritonclient.utils import InferenceServerException

    with shared(inside, content) as region:
        try:
            client.register_system_shared_memory(region.name, f"/{region.name}", region.size)
        except (InferenceServerException, OSError) as fault:
            raise Problem(refused("system", inside.called, fault)) from fault
        try:
            yield region
        finally:
            with suppress(InferenceServerException, OSError):  # a server that died has forgotten it
                client.unregister_system_shared_memory(region.name)


def refused(kind: str, container: str, fault: InferenceServerException | OSError) -> Diagnostic:
    """The server does not take the region."""
    words = str(fault) if isinstance(fault, OSError) else str(fault.message())
    return Diagnostic(
        "A model server refuses shared memory",
        f"The server in {container} does not take a region of {kind} shared memory: {words.rstrip(' .')}.",
        "Write shared_memory: none, or look at its log.",
    )
