"""A session over SSH: the agent, the Docker engine and forwarded ports, all on channels of one transport."""

from __future__ import annotations

import contextlib
import shlex
import socket
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, BinaryIO

import paramiko

from gpuplan.model.inventory import Host
from gpuplan.model.snapshot import Snapshot
from gpuplan.model.value import JsonObject
from gpuplan.reach.agent_process import AgentProcess
from gpuplan.reach.bridge_start import start_bridge
from gpuplan.reach.bundle import command
from gpuplan.reach.channels import Channels
from gpuplan.reach.forwarding import forwarded
from gpuplan.reach.pump import Pump
from gpuplan.reach.session import Question
from gpuplan.reach.sshconfig import route
from gpuplan.reach.transport import Chain

if TYPE_CHECKING:
    import docker

LAST_WORDS = 2.0
"""Seconds to wait for what a program that has closed its output still says, and for its exit status."""


class SshSession:
    """One node over SSH; see `Session`."""

    def __init__(self, host: Host) -> None:
        """Connect and start the agent.

        Raises:
            Problem: what stands in the way, and what to do.
        """
        self.node = host.name
        self._command = shlex.join(command(host, host.become))
        self._docker: docker.APIClient | None = None
        self._streams: list[Pump] = []
        self._chain = Chain(route(host))
        try:
            self._channels = Channels(self.node, self._chain.last)
            self._agent = AgentProcess(self.node, _ChannelPipe(self._channels, self._command))
        except BaseException:
            self._chain.close()
            raise

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

    def forward(self, port: int, host: str = "127.0.0.1") -> AbstractContextManager[str]:
        """See Session.forward."""
        return forwarded(self._channels, host, port)

    def close(self) -> None:
        """See Session.close."""
        if self._docker is not None:
            self._docker.close()
        for stream in self._streams:
            stream.close()
        self._agent.close()
        self._chain.close()

    def _open_engine(self) -> socket.socket:
        """A stream to the engine. A real socket, since the SDK polls what it reads from."""
        pipe = _ChannelPipe(self._channels, self._command)
        try:
            start_bridge(self.node, pipe)
        except BaseException:
            pipe.close()
            raise
        ours, theirs = socket.socketpair()
        self._streams = [stream for stream in self._streams if not stream.done]
        self._streams.append(pipe.into(theirs))
        return ours


class _ChannelPipe:
    """A program on the node, as a Pipe."""

    def __init__(self, channels: Channels, program: str) -> None:
        self._channels = channels
        self._channel = channels.run(program)
        self._open = True

    def send(self, data: bytes) -> None:
        self._channel.sendall(data)

    def receive(self, timeout: float) -> bytes:
        self._channel.settimeout(timeout)
        received = self._channel.recv(1 << 18)
        self._channel.settimeout(None)
        return received

    def complaint(self) -> str:
        said = b""
        self._channel.settimeout(LAST_WORDS)
        with contextlib.suppress(TimeoutError):
            while piece := self._channel.recv_stderr(1 << 16):
                said += piece
        return said.decode(errors="replace")

    def status(self) -> int | None:
        self._channel.status_event.wait(LAST_WORDS)
        return self._channel.recv_exit_status() if self._channel.exit_status_ready() else None

    def close(self) -> None:
        if self._open:
            self._open = False
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
                self._channels.close(self._channel)

    def into(self, near: socket.socket) -> Pump:
        """Hand the channel over to a pump, which closes it."""
        self._open = False
        self._channel.settimeout(None)
        return Pump(near, self._channel, self._channels.close)
