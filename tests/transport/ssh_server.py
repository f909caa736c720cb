"""An SSH server in this process, on a port of its own: it runs commands, opens tunnels, and misbehaves on request."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO

import paramiko

from gpuplan.transport.ssh.channels import Pump

TICK = 0.05


class SshServer:
    """A running server. Its attributes may be changed while it runs."""

    def __init__(self, host_key: paramiko.PKey, accepted: paramiko.PKey, path: str) -> None:
        self.host_key = host_key
        self.accepted = accepted
        self.environment: dict[str, str] = {"PATH": path}
        self.dropping = 0
        """How many connections are still closed before the banner, as sshd does beyond MaxStartups."""
        self.silent = False
        """Takes connections and says nothing."""
        self.most_sessions = 10
        self.runs_commands = True
        self.connections = 0
        self.offered: list[str] = []
        self.transports: list[paramiko.Transport] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self._stop = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(TICK)
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """End all connections, as a broken network does."""
        for transport in self.transports:
            transport.close()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._listener.close()
        self.cut()
        for process in self.processes:
            process.kill()
            process.wait()

    def _serve(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                link, _ = self._listener.accept()
                link.setblocking(True)
                self.connections += 1
                self._welcome(link)

    def _welcome(self, link: socket.socket) -> None:
        if self.silent:
            self.transports.append(_Silent(link))
        elif self.dropping:
            self.dropping -= 1
            link.close()
        else:
            transport = paramiko.Transport(link)
            transport.add_server_key(self.host_key)
            connection = _Connection(self)
            transport.start_server(event=threading.Event(), server=connection)
            self.transports.append(transport)
            threading.Thread(target=connection.tunnel, args=(transport,), daemon=True).start()


class _Silent:
    """A connection on which nothing is ever said."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link

    def close(self) -> None:
        self._link.close()


class _Connection(paramiko.ServerInterface):
    def __init__(self, server: SshServer) -> None:
        self._server = server
        self._sessions = 0
        self._targets: dict[int, socket.socket] = {}

    def tunnel(self, transport: paramiko.Transport) -> None:
        """Join each tunnel that was opened with the connection made for it."""
        while transport.is_active():
            channel = transport.accept(TICK)
            near = self._targets.pop(channel.chanid, None) if channel else None
            if near is not None:
                Pump(near, channel, lambda ended: ended.close())

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self._server.offered.append(key.fingerprint)
        right = username == "ops" and key == self._server.accepted
        return paramiko.AUTH_SUCCESSFUL if right else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        self._sessions += 1
        if self._sessions > self._server.most_sessions:
            return paramiko.OPEN_FAILED_CONNECT_FAILED
        return paramiko.OPEN_SUCCEEDED

    def check_channel_direct_tcpip_request(
        self, chanid: int, origin: tuple[str, int], destination: tuple[str, int]
    ) -> int:
        try:
            near = socket.create_connection(destination, timeout=5)
        except OSError:
            return paramiko.OPEN_FAILED_CONNECT_FAILED
        near.setblocking(True)
        self._targets[chanid] = near
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        if not self._server.runs_commands:
            return False
        process = subprocess.Popen(
            ["/bin/sh", "-c", command.decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._server.environment,
            bufsize=0,
        )
        self._server.processes.append(process)
        threading.Thread(target=_run, args=(channel, process), daemon=True).start()
        return True


def _run(channel: paramiko.Channel, process: subprocess.Popen[bytes]) -> None:
    begun = threading.Event()
    outputs = [
        threading.Thread(target=_output, args=(process.stdout, channel.sendall), daemon=True),
        threading.Thread(target=_output, args=(process.stderr, channel.sendall_stderr), daemon=True),
    ]
    for thread in outputs:
        thread.start()
    threading.Thread(target=_input, args=(channel, process, begun), daemon=True).start()
    for thread in outputs:
        thread.join()
    begun.wait(5)  # the client knows that the command runs only once this server's answer to that has gone out
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        channel.send_exit_status(process.wait() & 0xFF)
        channel.close()


def _input(channel: paramiko.Channel, process: subprocess.Popen[bytes], begun: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while piece := channel.recv(1 << 16):
            begun.set()
            process.stdin.write(piece)
    begun.set()
    process.stdin.close()


def _output(stream: BinaryIO, send: Callable[[bytes], None]) -> None:
    with stream, contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        while piece := os.read(stream.fileno(), 1 << 16):
            send(piece)


@contextlib.contextmanager
def echo_server() -> Iterator[int]:
    """A TCP server that says back what it hears; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(TICK)
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    link, _ = listener.accept()
                    link.setblocking(True)
                    threading.Thread(target=_echo, args=(link,), daemon=True).start()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        stop.set()
        thread.join()


def _echo(link: socket.socket) -> None:
    with link, contextlib.suppress(OSError):
        while piece := link.recv(1 << 16):
            link.sendall(piece)
