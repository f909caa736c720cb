"""A local port that leads to a port of the node, through the node's one connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import paramiko

from gpuplan.transport.channels import Channels
from gpuplan.transport.pump import Pump
from gpuplan.types.diagnostic import Problem

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
            except OSError:  # too many open files: whoever waits is let in once there are fewer
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
