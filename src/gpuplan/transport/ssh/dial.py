"""One SSH transport to a node: dialled, its host key checked, logged in; over hops where the route says so."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections import defaultdict

import paramiko
import tenacity
from paramiko.ssh_exception import IncompatiblePeer

from gpuplan.transport.ssh.authentication import KnownHosts, authenticate
from gpuplan.transport.ssh.config import SshRoute, hop_route
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem

BANNER_TIMEOUT = 15.0
AUTH_TIMEOUT = 30.0
KEEPALIVE = 15
"""Seconds between signs of life, so that a dead connection has something unanswered."""
UNANSWERED_MS = 60_000
"""How long data may stay unacknowledged before the connection counts as lost (tcp(7), TCP_USER_TIMEOUT)."""
ATTEMPTS = 6
MAX_HANDSHAKES = 4
"""Handshakes at once with one server: MaxStartups (10:30:100) of sshd begins to drop at ten, from all clients."""

_gates: defaultdict[tuple[str, int], threading.Semaphore] = defaultdict(lambda: threading.Semaphore(MAX_HANDSHAKES))
logging.getLogger("paramiko").addHandler(logging.NullHandler())  # it would write tracebacks to standard error


class _Throttled(Exception):
    """The server closed the connection before it spoke."""


class TransportChain:
    """The transport to a node, and those to the hops before it."""

    def __init__(self, route: SshRoute) -> None:
        """Connect; raises Problem if that is impossible."""
        self._transports: list[paramiko.Transport] = []
        try:
            for each in [*(hop_route(route, hop) for hop in route.jumps), route]:
                before = self._transports[-1] if self._transports else None
                self._transports.append(_connect(each, before))
        except BaseException:
            self.close()
            raise

    @property
    def last(self) -> paramiko.Transport:
        """The transport to the node itself."""
        return self._transports[-1]

    def close(self) -> None:
        """Close all, the farthest first; may be called twice."""
        for transport in reversed(self._transports):
            transport.close()


def _connect(route: SshRoute, through: paramiko.Transport | None) -> paramiko.Transport:
    """Handshake and login; a server that is overrun is tried again, with growing pauses of random length."""
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_Throttled),
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=tenacity.wait_random_exponential(multiplier=0.2, max=3.0),
        reraise=True,
    )
    try:
        with _gates[route.address, route.port]:
            transport = retrying(_handshake, route, through)
            try:
                authenticate(transport, route)
            except BaseException:
                transport.close()
                raise
    except _Throttled as error:
        raise _problem(
            route,
            "The SSH server closes new connections immediately",
            f"{route.address}:{route.port} closed the connection before the SSH banner in all {ATTEMPTS} attempts.",
            "Check the log of sshd on the node (journalctl -u ssh): it drops logins above its MaxStartups.",
        ) from error
    transport.set_keepalive(KEEPALIVE)
    return transport


def _handshake(route: SshRoute, through: paramiko.Transport | None) -> paramiko.Transport:
    """A transport whose host key is checked."""
    known = KnownHosts(route)
    link = _dial(route) if through is None else _tunnel(route, through)
    transport = paramiko.Transport(link)
    transport.banner_timeout = BANNER_TIMEOUT
    transport.auth_timeout = AUTH_TIMEOUT
    options = transport.get_security_options()
    options.key_types = sorted(options.key_types, key=lambda each: _family(each) not in map(_family, known.types))
    began = time.monotonic()
    try:
        transport.start_client(timeout=BANNER_TIMEOUT)
        known.check(transport.get_remote_server_key())
    except IncompatiblePeer as error:
        transport.close()
        fix = "Update the SSH server, or allow a current algorithm in sshd_config; SHA-1 and DSA are not used."
        raise _problem(route, "No common SSH algorithm", f"{route.address}:{route.port}: {error}.", fix) from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        transport.close()
        if time.monotonic() - began < BANNER_TIMEOUT * 0.9:
            raise _Throttled(str(error)) from error
        detail = (
            f"{route.address}:{route.port} accepted the connection but sent no SSH banner within {BANNER_TIMEOUT:g} s."
        )
        raise _problem(
            route,
            "The SSH server does not answer",
            detail,
            "Check the load of the node and its sshd (systemctl status ssh).",
        ) from error
    except BaseException:
        transport.close()
        raise
    return transport


def _dial(route: SshRoute) -> socket.socket:
    """A TCP connection. Without TCP_NODELAY every small request waits 40 ms for an acknowledgement."""
    try:
        link = socket.create_connection((route.address, route.port), timeout=route.connect_timeout)
    except socket.gaierror as error:
        fix = "Correct ansible_host, or add the name to DNS, /etc/hosts or ~/.ssh/config (HostName)."
        raise _problem(
            route, "Cannot resolve the node's address", f"{route.address}: {error.strerror}.", fix
        ) from error
    except ConnectionRefusedError as error:
        detail = f"{route.address}:{route.port}: connection refused."
        fix = "Start the SSH server on the node, or correct ansible_port."
        raise _problem(route, "The node refused the SSH connection", detail, fix) from error
    except ConnectionResetError as error:
        raise _Throttled(str(error)) from error
    except OSError as error:
        timed_out = f"no answer within {route.connect_timeout:g} s"
        why = timed_out if isinstance(error, TimeoutError) else error.strerror
        detail = f"{route.address}:{route.port}: {why}."
        fix = "Check that the node is up and that routing and firewalls allow SSH to it."
        raise _problem(route, "Cannot reach the node", detail, fix) from error
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(AttributeError, OSError):  # Linux only
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_MS)
    return link


def _tunnel(route: SshRoute, through: paramiko.Transport) -> paramiko.Channel:
    """A channel of the hop before, which leads to the next server."""
    try:
        return through.open_channel(
            "direct-tcpip", (route.address, route.port), ("127.0.0.1", 0), timeout=route.connect_timeout
        )
    except (paramiko.SSHException, EOFError, OSError) as error:
        detail = f"The jump host could not connect to {route.address}:{route.port}: {error}."
        fix = "Check that the node is up and that the jump host allows forwarding (AllowTcpForwarding in sshd_config)."
        raise _problem(route, "Cannot reach the node", detail, fix) from error


def _family(key_type: str) -> str:
    """rsa-sha2-256 and ssh-rsa are one kind of key."""
    return "rsa" if "rsa" in key_type else key_type


def _problem(route: SshRoute, summary: str, detail: str, fix: str) -> Problem:
    return Problem(Diagnostic(summary, detail, fix, address=route.node), Exit.UNREAD)
