"""The way over SSH: the agent, the Docker engine and forwarded ports, all on channels of one transport."""

from __future__ import annotations

import contextlib
import shlex
import socket
import time
from contextlib import AbstractContextManager

import paramiko

from gpuplan.transport.bundle import command
from gpuplan.transport.docker_client import start_bridge
from gpuplan.transport.ssh.channels import Channels, Pump, forwarded
from gpuplan.transport.ssh.config import route
from gpuplan.transport.ssh.dial import TransportChain
from gpuplan.types.inventory import Host

STALLED = 180.0
"""Seconds in which the node takes not a byte of what it is sent, after which it is given up."""
LAST_WORDS = 2.0
"""Seconds to wait for what a program that has closed its output still says, and for its exit status."""


class SshConnection:
    """The way to one node over SSH; see `NodeConnection`."""

    def __init__(self, host: Host) -> None:
        """Connect; raises Problem if that is impossible."""
        self._host = host
        self._node = host.name
        self._command = shlex.join(command(host, host.become))
        self._streams: list[Pump] = []
        self._chain = TransportChain(route(host))
        self._channels = Channels(self._node, self._chain.last)

    def program(self) -> ChannelPipe:
        """See NodeConnection.program."""
        return ChannelPipe(self._channels, self._command)

    def engine(self) -> socket.socket:
        """See NodeConnection.engine; each stream has a program and a channel of its own."""
        pipe = self.program()
        try:
            start_bridge(self._host, pipe)
        except BaseException:
            pipe.close()
            raise
        ours, theirs = socket.socketpair()
        self._streams = [stream for stream in self._streams if not stream.done]
        self._streams.append(pipe.into(theirs))
        return ours

    def forward(self, port: int, host: str) -> AbstractContextManager[str]:
        """See NodeConnection.forward."""
        return forwarded(self._channels, host, port)

    def close(self) -> None:
        """See NodeConnection.close."""
        for stream in self._streams:
            stream.close()
        self._chain.close()


class ChannelPipe:
    """A program on the node, as a Pipe."""

    def __init__(self, channels: Channels, program: str) -> None:
        self._channels = channels
        self._channel = channels.run(program)
        self._open = True

    def send(self, data: bytes) -> None:
        """See Pipe.send."""
        self._channel.settimeout(STALLED)
        try:
            self._channel.sendall(data)
        except (EOFError, paramiko.SSHException) as error:
            raise ConnectionError("the connection is closed") from error

    def receive(self, timeout: float) -> bytes:
        """See Pipe.receive. A sign of life that is sent meanwhile changes the channel's timeout, hence the loop."""
        until = time.monotonic() + timeout
        while True:
            self._channel.settimeout(max(0.0, until - time.monotonic()))
            with contextlib.suppress(TimeoutError):
                return self._channel.recv(1 << 18)
            if time.monotonic() >= until:
                raise TimeoutError

    def complaint(self) -> str:
        """See Pipe.complaint."""
        said = b""
        self._channel.settimeout(LAST_WORDS)
        with contextlib.suppress(TimeoutError):
            while piece := self._channel.recv_stderr(1 << 16):
                said += piece
        return said.decode(errors="replace")

    def status(self) -> int | None:
        """See Pipe.status."""
        self._channel.status_event.wait(LAST_WORDS)
        return self._channel.recv_exit_status() if self._channel.exit_status_ready() else None

    def close(self) -> None:
        """See Pipe.close."""
        if self._open:
            self._open = False
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
                self._channels.close(self._channel)

    def into(self, near: socket.socket) -> Pump:
        """Hand the channel over to a pump, which closes it."""
        self._open = False
        self._channel.settimeout(None)
        return Pump(near, self._channel, self._channels.close)
