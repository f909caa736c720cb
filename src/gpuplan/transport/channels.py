"""The channels of one transport: never more than eight programs at once, since sshd refuses an eleventh session."""

from __future__ import annotations

import threading

import paramiko

from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Exit, Problem

MOST = 8
"""Programs at once. MaxSessions of sshd, 10 where nobody sets it, counts sessions and not what leads to a port
(sshd_config(5))."""
PATIENCE = 60.0
"""Seconds to wait for one of ours to be closed, and for the server to open one."""


class Channels:
    """Opens channels and counts them."""

    def __init__(self, node: str, transport: paramiko.Transport) -> None:
        self._node = node
        self._transport = transport
        self._free = threading.BoundedSemaphore(MOST)
        self._sessions: set[paramiko.Channel] = set()

    def run(self, command: str) -> paramiko.Channel:
        """A channel on which the command runs; the command must be quoted."""
        channel = self._session()
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
        if channel in self._sessions:
            self._sessions.discard(channel)
            self._free.release()

    def _session(self) -> paramiko.Channel:
        if not self._free.acquire(timeout=PATIENCE):
            raise self._problem(
                "Too many channels are open",
                f"All {MOST} programs of the connection have been busy for {PATIENCE:g} s.",
                "Something waits for a stream that does not end; run it again.",
            )
        try:
            channel = self._open("session", None)
        except BaseException:
            self._free.release()
            raise
        self._sessions.add(channel)
        return channel

    def _open(self, kind: str, destination: tuple[str, int] | None) -> paramiko.Channel:
        try:
            return self._transport.open_channel(kind, destination, ("127.0.0.1", 0), timeout=PATIENCE)
        except paramiko.ChannelException as error:
            if kind != "session":
                raise
            raise self._problem(
                "The SSH server opens no further channel",
                f"It said: {error.text}.",
                "Raise MaxSessions in its sshd_config; gpuplan needs eight.",
            ) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            detail = f"A channel could not be opened: {error}."
            raise ConnectionLost(
                Diagnostic("The connection to the node was lost", detail, "Run it again.", address=self._node),
                Exit.UNREAD,
            ) from error

    def _problem(self, summary: str, detail: str, fix: str) -> Problem:
        return Problem(Diagnostic(summary, detail, fix, address=self._node), Exit.UNREAD)
