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

from gpuplan.transport.authentication import authenticate
from gpuplan.transport.hostkeys import KnownHosts
from gpuplan.transport.sshconfig import Route, hop_route
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem

BANNER_TIMEOUT = 15.0
AUTH_TIMEOUT = 30.0
KEEPALIVE = 15
"""Seconds between signs of life, so that a dead connection has something unanswered."""
UNANSWERED_MS = 60_000
"""How long data may stay unacknowledged before the connection counts as lost (tcp(7), TCP_USER_TIMEOUT)."""
ATTEMPTS = 6
HANDSHAKES = 4
"""Handshakes at once with one server: MaxStartups (10:30:100) of sshd begins to drop at ten, from all clients."""

_gates: defaultdict[tuple[str, int], threading.Semaphore] = defaultdict(lambda: threading.Semaphore(HANDSHAKES))
logging.getLogger("paramiko").addHandler(logging.NullHandler())  # it would write tracebacks to standard error


class _Throttled(Exception):
    """The server closed the connection before it spoke."""


class Chain:
    """The transport to a node, and those to the hops before it."""

    def __init__(self, route: Route) -> None:
        """Connect.

        Raises:
            Problem: what stands in the way, and what to do.
        """
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


def _connect(route: Route, through: paramiko.Transport | None) -> paramiko.Transport:
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
            "The SSH server closes the connection at once",
            f"{route.address}:{route.port} closed it before its banner, {ATTEMPTS} times.",
            "Look at its log; too many logins at once are dropped (MaxStartups in sshd_config).",
        ) from error
    transport.set_keepalive(KEEPALIVE)
    return transport


def _handshake(route: Route, through: paramiko.Transport | None) -> paramiko.Transport:
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
        fix = "Update its SSH server; SHA-1 and DSA are not offered."
        raise _problem(route, "The SSH server is too old or too strict", f"{error}.", fix) from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        transport.close()
        if time.monotonic() - began < BANNER_TIMEOUT * 0.9:
            raise _Throttled(str(error)) from error
        detail = f"{route.address}:{route.port} took the connection and said nothing for {BANNER_TIMEOUT:g} s."
        raise _problem(
            route, "The SSH server does not answer", detail, "Look at the node; it may be overloaded."
        ) from error
    except BaseException:
        transport.close()
        raise
    return transport


def _dial(route: Route) -> socket.socket:
    """A TCP connection. Without TCP_NODELAY every small request waits 40 ms for an acknowledgement."""
    try:
        link = socket.create_connection((route.address, route.port), timeout=route.connect_timeout)
    except socket.gaierror as error:
        fix = "Correct ansible_host, or give the name an address (DNS, /etc/hosts, HostName in ~/.ssh/config)."
        raise _problem(route, "The node's name does not resolve", f"{route.address}: {error.strerror}.", fix) from error
    except ConnectionRefusedError as error:
        detail = f"Nothing listens on {route.address}:{route.port}."
        fix = "Start the SSH server there, or correct ansible_port."
        raise _problem(route, "The node refuses SSH connections", detail, fix) from error
    except ConnectionResetError as error:
        raise _Throttled(str(error)) from error
    except OSError as error:
        why = "no answer" if isinstance(error, TimeoutError) else error.strerror
        detail = f"{route.address}:{route.port}: {why} within {route.connect_timeout:g} s."
        fix = "Check that the node is up and that a route and the firewall lead there."
        raise _problem(route, "The node cannot be reached", detail, fix) from error
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(AttributeError, OSError):  # Linux only
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_MS)
    return link


def _tunnel(route: Route, through: paramiko.Transport) -> paramiko.Channel:
    """A channel of the hop before, which leads to the next server."""
    try:
        return through.open_channel(
            "direct-tcpip", (route.address, route.port), ("127.0.0.1", 0), timeout=route.connect_timeout
        )
    except (paramiko.SSHException, EOFError, OSError) as error:
        detail = f"The jump host cannot open {route.address}:{route.port} ({error})."
        fix = "Check that the node is up and that the jump host may forward (AllowTcpForwarding)."
        raise _problem(route, "The node cannot be reached", detail, fix) from error


def _family(key_type: str) -> str:
    """rsa-sha2-256 and ssh-rsa are one kind of key."""
    return "rsa" if "rsa" in key_type else key_type


def _problem(route: Route, summary: str, detail: str, fix: str) -> Problem:
    return Problem(Diagnostic(summary, detail, fix, address=route.node), Exit.UNREAD)
