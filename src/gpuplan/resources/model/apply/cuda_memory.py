"""A region of CUDA shared memory: a program in the container holds it on the GPU as long as the server uses it."""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from gpuplan.resources.model.apply.shared_memory import Inside, Shared, refused, shared
from gpuplan.types.diagnostic import Diagnostic, Problem

if TYPE_CHECKING:
    from tritonclient.http import InferenceServerClient

STARTING = 60.0
"""Seconds until the program has told its handle; the first use of a GPU may take some."""
HANDLE = 64
"""Bytes of a handle (CUipcMemHandle of cuda.h)."""
ENDING = 30.0
"""Seconds to copy back and end."""


@dataclass(frozen=True)
class OnGpu:
    """A region on the GPU; its content is read once, by ending the program that holds it."""

    name: str
    file: Shared
    program: _Program
    client: InferenceServerClient

    def read(self) -> bytes:
        """See Region.read. Memory that another process has mapped must not be freed, so the server forgets it first."""
        self.forget()
        self.program.end()
        return self.file.read()

    def forget(self) -> None:
        """Have the server unmap it; what it does not know it takes for unmapped."""
        from tritonclient.utils import InferenceServerException

        with suppress(InferenceServerException, OSError):  # a server that died has forgotten it
            self.client.unregister_cuda_shared_memory(self.name)


@contextmanager
def cuda_region(inside: Inside, content: bytes, seconds: float, client: InferenceServerClient) -> Iterator[OnGpu]:
    """A region of CUDA shared memory that the server has mapped; it is held for `seconds` at most.

    Raises:
        Problem: the container has no GPU, no driver or no Python, or the server refuses the region.
    """
    from tritonclient.utils import InferenceServerException

    with shared(inside, content) as file, _running(inside, file, seconds) as program:
        try:
            client.register_cuda_shared_memory(file.name, base64.b64encode(program.handle()), 0, file.size)
        except (InferenceServerException, OSError) as fault:
            raise Problem(refused("CUDA", inside.called, fault)) from fault
        region = OnGpu(file.name, file, program, client)
        try:
            yield region
        finally:
            region.forget()


@contextmanager
def _running(inside: Inside, file: Shared, seconds: float) -> Iterator[_Program]:
    program = _Program(inside, file, seconds)
    try:
        yield program
    finally:
        with suppress(Problem):  # told already where it matters
            program.end()
        with suppress(Problem):
            inside.run(["rm", "-f", f"{file.path}.done"])


class _Program:
    """The program, run in a thread of ours: its handle comes while it goes on."""

    def __init__(self, inside: Inside, file: Shared, seconds: float) -> None:
        self._inside = inside
        self._file = file
        self._said: SimpleQueue[bytes | None] = SimpleQueue()
        self._problem: Problem | None = None
        self._over = False
        text = files("gpuplan.resources.model.apply").joinpath("cuda_program.py").read_text("utf-8")
        argv = ["python3", "-c", text, file.path, f"{seconds + ENDING:g}"]
        self._thread = threading.Thread(target=self._run, args=(argv,), name="cuda-region", daemon=True)
        self._thread.start()

    def handle(self) -> bytes:
        """The handle by which the server maps the region.

        Raises:
            Problem: the program ended, or says nothing.
        """
        said = b""
        while not said.endswith(b"\n"):
            try:
                piece = self._said.get(timeout=STARTING)
            except Empty:
                raise Problem(self._missing(f"nothing was heard of it for {STARTING:g} s")) from None
            if piece is None:
                raise self._problem or Problem(self._missing("it ended at once"))
            said += piece
        try:
            found = base64.b64decode(said.strip(), validate=True)
        except binascii.Error:
            found = b""
        if len(found) != HANDLE:
            raise Problem(self._missing(f"it said {said[:80]!r}"))
        return found

    def end(self) -> None:
        """Have it copy the memory back and end; raises Problem where it failed."""
        if not self._over and self._thread.is_alive():
            self._inside.run(["touch", f"{self._file.path}.done"])
            self._thread.join(ENDING)
        self._over = True
        if self._problem is not None:
            raise self._problem

    def _run(self, argv: list[str]) -> None:
        try:
            self._inside.run(argv, hear=self._said.put)
        except Problem as problem:
            cause = problem.diagnostics[0]
            self._problem = Problem(self._missing(cause.detail.rstrip(".")))
        finally:
            self._said.put(None)

    def _missing(self, why: str) -> Diagnostic:
        return Diagnostic(
            "CUDA shared memory could not be used",
            f"A Python program in {self._inside.called} puts the tensors on its GPU by libcuda.so.1: {why}.",
            "It takes a GPU in the container, python3, and the capability compute; or write shared_memory: system.",
        )
