"""The channels of one transport: never more than eight programs at once, since sshd refuses an eleventh session."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import paramiko

from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Exit, Problem

MAX_CHANNELS = 8
"""Programs at once. sshd's MaxSessions, 10 by default, counts sessions but not forwarded ports
(sshd_config(5))."""
PATIENCE = 60.0
"""Seconds to wait for one of ours to be closed, and for the server to open one."""


class Channels:
    """Opens channels and counts them."""

    def __init__(self, node: str, transport: paramiko.Transport) -> None:
        self._node = node
        self._transport = transport
        self._free = threading.BoundedSemaphore(MAX_CHANNELS)
        self._sessions: set[paramiko.Channel] = set()

    def run(self, command: str) -> paramiko.Channel:
        """A channel on which the command runs; the command must be quoted."""
        channel = self._session()
        try:
            channel.exec_command(command)
        except (paramiko.SSHException, EOFError, OSError) as error:
            self.close(channel)
            raise self._problem(
                "The SSH server refused to run a command",
                f"sshd: {error}.",
                "Check ForceCommand in sshd_config and the login shell of the user on the node.",
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
                "Too many SSH channels are open",
                f"All {MAX_CHANNELS} channels to the node have been in use for {PATIENCE:g} s.",
                "Run the command again. If this repeats, report a bug: a stream was not closed.",
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
                "The SSH server refused another channel",
                f"sshd: {error.text}.",
                "Set MaxSessions in sshd_config on the node to 8 or more (the default is 10).",
            ) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            detail = f"Cannot open a channel: {error}."
            raise ConnectionLost(
                Diagnostic("The connection to the node was lost", detail, "Run the command again.", address=self._node),
                Exit.UNREAD,
            ) from error

    def _problem(self, summary: str, detail: str, fix: str) -> Problem:
        return Problem(Diagnostic(summary, detail, fix, address=self._node), Exit.UNREAD)


# Carrying bytes between a socket of this machine and an SSH channel, both ways, with threads that end.

PIECE = 1 << 16
CLOSE_TIMEOUT = 5.0
"""Seconds for a thread to see that its two ends are closed."""


class Pump:
    """One running pair of carriers; owns both ends. `ended` is called once, when both ways are done."""

    def __init__(self, near: socket.socket, far: paramiko.Channel, ended: Callable[[paramiko.Channel], None]) -> None:
        self._near = near
        self._far = far
        self._ended = ended
        self._left = 2
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=way, daemon=True) for way in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End both ways, now; returns when their threads have ended."""
        with contextlib.suppress(OSError):
            self._near.shutdown(socket.SHUT_RDWR)
        self._far.close()
        for thread in self._threads:
            thread.join(CLOSE_TIMEOUT)

    @property
    def done(self) -> bool:
        """True once both ways have ended."""
        return self._left == 0

    def _send(self) -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            while piece := self._near.recv(PIECE):
                self._far.sendall(piece)
            # Not the channel's end of file alone: paramiko may send that after a close, and sshd ends the connection
            self._far.close()
        self._one_less()

    def _receive(self) -> None:
        try:
            while piece := self._far.recv(PIECE):
                self._near.sendall(piece)
            self._near.shutdown(socket.SHUT_WR)
        except (OSError, EOFError, paramiko.SSHException):
            self._far.close()  # the reader is gone, so the program at the far end must end as well
        self._one_less()

    def _one_less(self) -> None:
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self._near.close()
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):  # the connection may be gone already
                self._ended(self._far)


# A local port that leads to a port of the node, through the node's one connection.

POLL = 1.0
"""Seconds after which the thread that accepts sees that it is no longer wanted, should nothing wake it."""


@contextlib.contextmanager
def forwarded(channels: Channels, host: str, port: int) -> Iterator[str]:
    """`127.0.0.1:PORT` here, which leads to `host`:`port` as the node sees it; closed with all that runs over it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(POLL)
        forwarding = _Forwarding(channels, host, port, listener)
        thread = threading.Thread(target=forwarding.serve, name=f"forward-{host}-{port}", daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            forwarding.stop()
            thread.join()


class _Forwarding:
    def __init__(self, channels: Channels, host: str, port: int, listener: socket.socket) -> None:
        self._channels = channels
        self._target = (host, port)
        self._listener = listener
        self._stopping = threading.Event()
        self._pumps: list[Pump] = []

    def serve(self) -> None:
        while not self._stopping.is_set():
            try:
                near, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:  # too many open files: waiting clients are accepted once there are fewer
                self._stopping.wait(POLL)
                continue
            if self._stopping.is_set():
                near.close()
                break
            self._pumps = [pump for pump in self._pumps if not pump.done]
            self._join(near)
        for pump in self._pumps:
            pump.close()

    def stop(self) -> None:
        """Have the thread end, which waits for a connection: it gets one."""
        self._stopping.set()
        with contextlib.suppress(OSError):
            socket.create_connection(self._listener.getsockname(), timeout=POLL).close()

    def _join(self, near: socket.socket) -> None:
        """A port where nothing listens closes the connection at once, as it would on the node itself."""
        near.setblocking(True)
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            far = self._channels.tunnel(*self._target)
        except (paramiko.ChannelException, Problem):
            near.close()
        else:
            self._pumps.append(Pump(near, far, self._channels.close))
