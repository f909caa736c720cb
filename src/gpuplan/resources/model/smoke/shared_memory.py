"""Shared memory regions inside a container: created and filled there, registered with the server, read, removed."""

from __future__ import annotations

import base64
import binascii
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from gpuplan.types.diagnostic import Diagnostic, Problem

if TYPE_CHECKING:
    import docker
    from tritonclient.http import InferenceServerClient
    from tritonclient.utils import InferenceServerException

DIRECTORY = "/dev/shm"  # noqa: S108 - the container's own; the file name is random
BLOCK = 1 << 16
"""Bytes of one write."""
NO_SUCH_PROGRAM = (126, 127)
"""Exit codes by which an engine says that the container has no such program."""
START_TIMEOUT = 60.0
"""Seconds until the CUDA program prints its handle; the first use of a GPU is slow."""
END_TIMEOUT = 30.0
"""Seconds for the CUDA program to copy the memory back and exit."""
HANDLE_BYTES = 64
"""Size of CUipcMemHandle (cuda.h)."""
_NAME = re.compile(r"^gpuplan-smoke-[0-9a-f]{16}$")


@dataclass(frozen=True)
class ExecResult:
    """A program that has exited."""

    code: int
    output: bytes
    error: str


def run_in_container(
    engine: docker.APIClient,
    container: str,
    argv: Sequence[str],
    stdin: bytes = b"",
    on_output: Callable[[bytes], None] = lambda _: None,
) -> ExecResult:
    """Run a program in a container until it exits; `on_output` gets its output as it is written.

    It must read exactly `stdin`: the stream is not closed before it exits.

    Raises:
        Problem: the engine refuses, or the connection is lost.
    """
    from docker.errors import APIError
    from docker.utils.socket import demux_adaptor, frames_iter

    output, error = bytearray(), bytearray()
    try:
        identity = engine.exec_create(container, list(argv), stdin=bool(stdin))["Id"]
        stream = engine.exec_start(identity, socket=True)
        try:
            if stdin:
                stream._sock.sendall(stdin)  # type: ignore[union-attr]  # as the SDK itself reaches the socket
            for frame in frames_iter(stream, tty=False):  # type: ignore[no-untyped-call]  # missing in the stubs
                written, complained = demux_adaptor(*frame)
                output += written or b""
                error += complained or b""
                if written:
                    on_output(written)
        finally:
            stream._response.close()  # type: ignore[union-attr]  # else the connection, and its channel, stay open
        code = engine.exec_inspect(identity)["ExitCode"]
    except (APIError, OSError) as fault:
        detail = f"{container}: {argv[0]}: {fault}."
        raise Problem(Diagnostic("Cannot run a program in the container", detail)) from fault
    return ExecResult(int(code or 0), bytes(output), error.decode("utf-8", "replace").strip())


@dataclass(frozen=True)
class ContainerShell:
    """The container in which a region lies."""

    engine: docker.APIClient
    container: str
    """Its id."""
    name: str
    """Its name, for messages."""

    def run(
        self, argv: Sequence[str], stdin: bytes = b"", on_output: Callable[[bytes], None] = lambda _: None
    ) -> bytes:
        """A program's output; raises Problem if it fails."""
        result = run_in_container(self.engine, self.container, argv, stdin, on_output)
        if not result.code:
            return result.output
        reason = result.error or result.output.decode("utf-8", "replace").strip()
        if result.code in NO_SUCH_PROGRAM:
            detail = f"{self.name} has no {argv[0]}: {reason}."
            fix = "Use an image that has it, or set shared_memory: none."
        else:
            detail = f"{argv[0]} in {self.name} exited with {result.code}: {reason}."
            fix = f"Check that {DIRECTORY} is large enough (shm_size of the container)."
        raise Problem(Diagnostic("Cannot use shared memory", detail, fix))


@dataclass(frozen=True)
class SharedFile:
    """A file in the container's /dev/shm."""

    shell: ContainerShell
    name: str
    size: int

    @property
    def path(self) -> str:
        """Its path in the container."""
        return f"{DIRECTORY}/{self.name}"

    def read(self) -> bytes:
        """Its content now; raises Problem if it cannot be read."""
        return self.shell.run(["head", "-c", str(self.size), self.path])


@contextmanager
def system_region(shell: ContainerShell, content: bytes, client: InferenceServerClient) -> Iterator[SharedFile]:
    """A region of system shared memory that the server has mapped.

    Raises:
        Problem: it cannot be created, or the server refuses it.
    """
    from tritonclient.utils import InferenceServerException

    with _shared_file(shell, content) as file:
        try:
            client.register_system_shared_memory(file.name, f"/{file.name}", file.size)
        except (InferenceServerException, OSError) as error:
            raise Problem(_refused("system", shell.name, error)) from error
        try:
            yield file
        finally:
            with suppress(InferenceServerException, OSError):  # a server that crashed has unmapped it
                client.unregister_system_shared_memory(file.name)


@contextmanager
def cuda_region(
    shell: ContainerShell, content: bytes, seconds: float, client: InferenceServerClient
) -> Iterator[CudaRegion]:
    """A region of CUDA shared memory that the server has mapped; it is held for `seconds` at most.

    Raises:
        Problem: the container has no GPU, no driver or no Python, or the server refuses the region.
    """
    from tritonclient.utils import InferenceServerException

    with _shared_file(shell, content) as file, _cuda_program(shell, file, seconds) as program:
        try:
            client.register_cuda_shared_memory(file.name, base64.b64encode(program.handle()), 0, file.size)
        except (InferenceServerException, OSError) as error:
            raise Problem(_refused("CUDA", shell.name, error)) from error
        region = CudaRegion(file.name, file, program, client)
        try:
            yield region
        finally:
            region.unregister()


@dataclass(frozen=True)
class CudaRegion:
    """A region on the GPU, held by a program in the container; reading it ends that program, so read it once."""

    name: str
    file: SharedFile
    program: _CudaProgram
    client: InferenceServerClient

    def read(self) -> bytes:
        """Its content now; raises Problem. The server unmaps it before it is freed, as CUDA demands."""
        self.unregister()
        self.program.end()
        return self.file.read()

    def unregister(self) -> None:
        """Have the server unmap it, if it has."""
        from tritonclient.utils import InferenceServerException

        with suppress(InferenceServerException, OSError):  # a server that crashed has unmapped it
            self.client.unregister_cuda_shared_memory(self.name)


Region = SharedFile | CudaRegion
"""A region that the server has mapped under its `name`."""


class _CudaProgram:
    """cuda_program.py in the container, run from a thread, since its handle is needed while it runs."""

    def __init__(self, shell: ContainerShell, file: SharedFile, seconds: float) -> None:
        self._shell = shell
        self._file = file
        self._output: SimpleQueue[bytes | None] = SimpleQueue()
        self._problem: Problem | None = None
        self._ended = False
        source = files("gpuplan.resources.model.smoke").joinpath("cuda_program.py").read_text("utf-8")
        argv = ["python3", "-c", source, file.path, f"{seconds + END_TIMEOUT:g}"]
        self._thread = threading.Thread(target=self._run, args=(argv,), name="cuda-region", daemon=True)
        self._thread.start()

    def handle(self) -> bytes:
        """The handle by which the server maps the region; raises Problem if the program exits or prints none."""
        line = b""
        while not line.endswith(b"\n"):
            try:
                piece = self._output.get(timeout=START_TIMEOUT)
            except Empty:
                raise Problem(self._unusable(f"no output within {START_TIMEOUT:g} s")) from None
            if piece is None:
                raise self._problem or Problem(self._unusable("it exited at once"))
            line += piece
        try:
            handle = base64.b64decode(line.strip(), validate=True)
        except binascii.Error:
            handle = b""
        if len(handle) != HANDLE_BYTES:
            raise Problem(self._unusable(f"unexpected output {line[:80]!r}"))
        return handle

    def end(self) -> None:
        """Have it copy the memory back and exit; raises Problem if it fails."""
        if not self._ended and self._thread.is_alive():
            self._shell.run(["touch", f"{self._file.path}.done"])
            self._thread.join(END_TIMEOUT)
        self._ended = True
        if self._problem is not None:
            raise self._problem

    def _run(self, argv: list[str]) -> None:
        try:
            self._shell.run(argv, on_output=self._output.put)
        except Problem as problem:
            self._problem = Problem(self._unusable(problem.diagnostics[0].detail.rstrip(".")))
        finally:
            self._output.put(None)

    def _unusable(self, why: str) -> Diagnostic:
        return Diagnostic(
            "Cannot use CUDA shared memory",
            f"The program in {self._shell.name} that puts tensors on the GPU through libcuda.so.1 failed: {why}.",
            "The container needs a GPU, python3 and the driver capability compute; or set shared_memory: system.",
        )


@contextmanager
def _shared_file(shell: ContainerShell, content: bytes) -> Iterator[SharedFile]:
    """A file of this content in the container's /dev/shm, always removed afterwards; raises Problem."""
    file = SharedFile(shell, f"gpuplan-smoke-{secrets.token_hex(8)}", len(content))
    if not _NAME.match(file.name):
        raise ValueError(f"unexpected name: {file.name!r}")
    try:
        size = [f"bs={BLOCK}", f"count={len(content)}", "iflag=fullblock,count_bytes", "status=none"]
        shell.run(["dd", f"of={file.path}", *size], content)
        yield file
    finally:
        with suppress(Problem):  # the container, and its memory, are gone; that was reported before
            shell.run(["rm", "-f", file.path])


@contextmanager
def _cuda_program(shell: ContainerShell, file: SharedFile, seconds: float) -> Iterator[_CudaProgram]:
    program = _CudaProgram(shell, file, seconds)
    try:
        yield program
    finally:
        with suppress(Problem):  # reported before, if it matters
            program.end()
        with suppress(Problem):
            shell.run(["rm", "-f", f"{file.path}.done"])


def _refused(kind: str, container: str, error: InferenceServerException | OSError) -> Diagnostic:
    reason = str(error) if isinstance(error, OSError) else str(error.message())
    return Diagnostic(
        "The Triton server refuses shared memory",
        f"The server in {container} refused a region of {kind} shared memory: {reason.rstrip(' .')}.",
        f"Check its log (docker logs {container}), or set shared_memory: none.",
    )
