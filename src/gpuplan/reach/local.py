"""A session on this machine: the same agent in a process of its own, under sudo where the inventory says so."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from gpuplan.model.inventory import Host
from gpuplan.model.snapshot import Snapshot
from gpuplan.model.value import JsonObject
from gpuplan.reach.agent_process import AgentProcess
from gpuplan.reach.bridge_start import start_bridge
from gpuplan.reach.bundle import DOCKER_SOCKET, command
from gpuplan.reach.session import Question

if TYPE_CHECKING:
    import docker

GRACE = 3.0
"""Seconds for a program to end by itself once its input has ended."""


class LocalSession:
    """This machine; see `Session`."""

    def __init__(self, host: Host) -> None:
        """Start the agent; raises Problem where it does not start."""
        self.node = host.name
        argv = command(host, become=host.become and os.geteuid() != 0)
        self._argv = [sys.executable if word == "python3" else word for word in argv]
        self._sudo = "sudo" in argv
        self._docker: docker.APIClient | None = None
        self._streams: list[socket.socket] = []
        self._agent = AgentProcess(self.node, Program(self._argv))

    def ask(self, question: Question) -> Snapshot:
        """See Session.ask."""
        return self._agent.ask(question)

    def agent(self, operation: str, **arguments: object) -> JsonObject:
        """See Session.agent."""
        return self._agent.call(operation, arguments)

    def send(self, digest: str, size: int, content: BinaryIO) -> None:
        """See Session.send."""
        self._agent.put(digest, size, content)

    def docker(self) -> docker.APIClient:
        """See Session.docker."""
        if self._docker is None:
            from gpuplan.reach.engine import client

            self._docker = client(self.node, self._open_engine)
        return self._docker

    @contextlib.contextmanager
    def forward(self, port: int, host: str = "127.0.0.1") -> Iterator[str]:
        """See Session.forward; every port of this machine is within reach already."""
        yield f"{host}:{port}"

    def close(self) -> None:
        """See Session.close."""
        if self._docker is not None:
            self._docker.close()
        for stream in self._streams:
            stream.close()
        self._agent.close()

    def _open_engine(self) -> socket.socket:
        stream = self._bridged() if self._sudo else self._direct()
        self._streams = [each for each in self._streams if each.fileno() >= 0]
        self._streams.append(stream)
        return stream

    def _direct(self) -> socket.socket:
        from gpuplan.reach.engine import explain_engine

        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            stream.connect(DOCKER_SOCKET)
        except OSError as error:
            stream.close()
            raise explain_engine(self.node, error.errno or 0) from error
        return stream

    def _bridged(self) -> socket.socket:
        """The engine through a program under sudo."""
        program = Program(self._argv)
        try:
            start_bridge(self.node, program)
        except BaseException:
            program.close()
            raise
        return program.stream


class Program:
    """A program on this machine, as a Pipe; its standard input and output are one socket, `stream` the other end."""

    def __init__(self, argv: list[str]) -> None:
        self.stream, theirs = socket.socketpair()
        self._complaint = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the program
        with theirs:
            self._process = subprocess.Popen(
                argv,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._complaint.fileno(),
                start_new_session=True,  # an interrupt from the terminal is ours to handle, not the agent's
            )

    def send(self, data: bytes) -> None:
        """See Pipe.send."""
        self.stream.sendall(data)

    def receive(self, timeout: float) -> bytes:
        """See Pipe.receive."""
        self.stream.settimeout(timeout)
        received = self.stream.recv(1 << 18)
        self.stream.settimeout(None)
        return received

    def complaint(self) -> str:
        """See Pipe.complaint."""
        self.status()
        self._complaint.seek(0)
        return self._complaint.read().decode(errors="replace")

    def status(self) -> int | None:
        """See Pipe.status."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(GRACE)
        return None

    def close(self) -> None:
        """See Pipe.close."""
        self.stream.close()
        if self.status() is None:
            with contextlib.suppress(PermissionError):  # what runs under sudo ends with its input, when it can
                self._process.kill()
        self._complaint.close()
