"""The channels of one transport: never more than eight at once, since sshd refuses the eleventh (MaxSessions 10)."""

from __future__ import annotations

import threading

import paramiko

from gpuplan.model.diagnostic import ConnectionLost, Diagnostic, Exit, Problem

MOST = 8
PATIENCE = 60.0
"""Seconds to wait for one of ours to be closed, and for the server to open one."""


class Channels:
    """Opens channels and counts them."""

    def __init__(self, node: str, transport: paramiko.Transport) -> None:
        self._node = node
        self._transport = transport
        self._free = threading.BoundedSemaphore(MOST)

    def run(self, command: str) -> paramiko.Channel:
        """A channel on which the command runs; the command must be quoted."""
        channel = self._open("session", None)
        try:
            channel.exec_command(command)
        except (paramiko.SSHException, EOFError, OSError) as error:
            self.close(channel)
            raise self._problem(
                "The SSH server runs no command",
                f"It said: {error}.",
                "Look at ForceCommand and the user's shell there.",
            ) from error
        return channel

    def tunnel(self, host: str, port: int) -> paramiko.Channel:
        """A channel that leads to a TCP port as the node sees it; raises ChannelException where nothing listens."""
        return self._open("direct-tcpip", (host, port))

    def close(self, channel: paramiko.Channel) -> None:
        """Close a channel that this object opened; once for each."""
        channel.close()
        self._free.release()

    def _open(self, kind: str, destination: tuple[str, int] | None) -> paramiko.Channel:
        if not self._free.acquire(timeout=PATIENCE):
            raise self._problem(
                "Too many channels are open",
                f"All {MOST} channels of the connection have been busy for {PATIENCE:g} s.",
                "Something waits for a stream that does not end; run it again.",
            )
        try:
            return self._transport.open_channel(kind, destination, ("127.0.0.1", 0), timeout=PATIENCE)
        except paramiko.ChannelException as error:
            self._free.release()
            if kind != "session":
                raise
            raise self._problem(
                "The SSH server opens no further channel",
                f"It said: {error.text}.",
                "Raise MaxSessions in its sshd_config; gpuplan needs eight.",
            ) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            self._free.release()
            detail = f"A channel could not be opened: {error}."
            raise ConnectionLost(
                Diagnostic("The connection to the node was lost", detail, "Run it again.", address=self._node),
                Exit.UNREAD,
            ) from error

    def _problem(self, summary: str, detail: str, fix: str) -> Problem:
        return Problem(Diagnostic(summary, detail, fix, address=self._node), Exit.UNREAD)
