"""The way to this machine: the same agent in a process of its own, under sudo where the inventory says so."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpuplan.transport.bundle import DOCKER_SOCKET, command, engine_socket
from gpuplan.transport.docker_client import start_bridge
from gpuplan.types.inventory import Host

GRACE = 3.0
"""Seconds for a program to end by itself once its input has ended."""


STALLED = 180.0
"""Seconds in which a program takes not a byte of what it is sent, after which it is given up."""


class LocalConnection:
    """The way to this machine; see `NodeConnection`."""

    def __init__(self, host: Host) -> None:
        host = _here(host, os.environ)
        argv = command(host, become=host.become and os.geteuid() != 0)
        self._host = host
        self._node = host.name
        self._argv = [sys.executable if word == "python3" else word for word in argv]
        self._sudo = "sudo" in argv
        self._streams: list[socket.socket] = []
        self._bridges: list[LocalProgram] = []

    def program(self) -> LocalProgram:
        """See NodeConnection.program."""
        return LocalProgram(self._argv)

    def engine(self) -> socket.socket:
        """See NodeConnection.engine."""
        stream = self._bridged() if self._sudo else self._direct()
        self._forget_closed()
        self._streams.append(stream)
        return stream

    @contextlib.contextmanager
    def forward(self, port: int, host: str) -> Iterator[str]:
        """See NodeConnection.forward; every port of this machine is within reach already."""
        yield f"{host}:{port}"

    def close(self) -> None:
        """See NodeConnection.close."""
        for stream in self._streams:
            stream.close()
        for bridge in self._bridges:
            bridge.close()

    def _forget_closed(self) -> None:
        """What the SDK has closed by itself, with the programs behind it."""
        self._streams = [each for each in self._streams if each.fileno() >= 0]
        for bridge in [each for each in self._bridges if each.stream.fileno() < 0]:
            self._bridges.remove(bridge)
            bridge.close()

    def _direct(self) -> socket.socket:
        from gpuplan.transport.docker_client import explain_engine

        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            stream.connect(self._host.docker_socket or DOCKER_SOCKET)
        except OSError as error:
            stream.close()
            raise explain_engine(self._node, error.errno or 0, engine_socket(self._host)) from error
        return stream

    def _bridged(self) -> socket.socket:
        """The engine through a program under sudo."""
        program = self.program()
        try:
            start_bridge(self._host, program)
        except BaseException:
            program.close()
            raise
        self._bridges.append(program)
        return program.stream


def _here(host: Host, environ: Mapping[str, str]) -> Host:
    """The host with the socket of $DOCKER_HOST, which on this machine counts where the inventory says nothing."""
    named = environ.get("DOCKER_HOST", "")
    if host.docker_socket or not named.startswith("unix:///"):
        return host
    return replace(host, docker_socket=named.removeprefix("unix://"))


class LocalProgram:
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
        left = memoryview(data)
        while left:
            self._wait(select.POLLOUT, STALLED)
            with contextlib.suppress(BlockingIOError):
                left = left[self.stream.send(left, socket.MSG_DONTWAIT) :]

    def receive(self, timeout: float) -> bytes:
        """See Pipe.receive."""
        self._wait(select.POLLIN, timeout)
        return self.stream.recv(1 << 18)

    def complaint(self) -> str:
        """See Pipe.complaint."""
        self.status()
        if self._complaint.closed:
            return ""
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
            self.status()
        self._complaint.close()

    def _wait(self, event: int, timeout: float) -> None:
        """Until the stream is ready. Its own timeout stays as it is: signs of life are sent while one waits."""
        poll = select.poll()
        try:
            poll.register(self.stream, event)
        except ValueError as error:
            raise ConnectionError("it was closed") from error
        if not poll.poll(timeout * 1000):
            raise TimeoutError
