"""Which version of its API an engine is spoken to in: the newest whose answers are known, where it still has it."""

from __future__ import annotations

import errno
import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import docker
import requests
import requests.adapters
import urllib3
from docker.constants import DEFAULT_DOCKER_API_VERSION

from gpuplan.transport.agent_process import START
from gpuplan.transport.bundle import DOCKER_SOCKET, bridge_program, engine_socket
from gpuplan.transport.pipe import Pipe, explain_start
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem
from gpuplan.types.inventory import Host

SPOKEN = (1, 44)
"""Docker 25; engines to 29 still speak it, and say nothing differently in it."""
LEAST = (1, 40)
"""Docker 19.03, the first with device requests: an older one gives containers no GPU by name."""
_VERSION = re.compile(r"(\d+)\.(\d+)")


def api_version(node: str, about: Mapping[str, object]) -> str:
    """The API version to use, from the engine's answer to GET /version.

    Raises:
        Problem: the engine is too old, or what answers is none.
    """
    has, least = (_VERSION.fullmatch(str(about.get(key) or "")) for key in ("ApiVersion", "MinAPIVersion"))
    if has is None:
        detail = "The service on the engine socket reports no version of the Docker API."
        fix = "Set gpuplan_docker_socket to the socket of Docker, or to Podman's Docker-compatible socket."
        raise Problem(Diagnostic("Not a Docker engine", detail, fix, address=node), Exit.UNREAD)
    newest = (int(has[1]), int(has[2]))
    if newest < LEAST:
        detail = f"Version {about.get('Version')} has API {has[0]}; gpuplan needs {LEAST[0]}.{LEAST[1]}."
        fix = "Upgrade Docker on the node to 20.10 or later."
        raise Problem(Diagnostic("The Docker engine is too old", detail, fix, address=node), Exit.UNREAD)
    oldest = (int(least[1]), int(least[2])) if least else (0, 0)
    chosen = max(min(newest, SPOKEN), oldest)
    return f"{chosen[0]}.{chosen[1]}"


# The docker SDK over any stream to the engine's socket, with connection errors raised as a Problem.

if TYPE_CHECKING:
    from collections.abc import Mapping

PATIENCE = 300
"""Seconds of silence after which a request is given up; a pull or a load says something every few seconds."""
IDLE = 4
"""Connections that are kept for the next request."""
BASE = "http+docker://localhost"

Opener = Callable[[], socket.socket]
"""Opens a stream to the engine; raises Problem."""


def client(node: str, opener: Opener) -> docker.APIClient:
    """An SDK client whose every connection comes from `opener`; speaks a version that both know."""
    about = _client(node, opener, DEFAULT_DOCKER_API_VERSION).version(api_version=False)
    return _client(node, opener, api_version(node, about))


def explain_engine(node: str, number: int, path: str = DOCKER_SOCKET) -> Problem:
    """The Problem for a system error number of connect(2) to the engine's socket."""
    if number in (errno.EACCES, errno.EPERM):
        summary, fix = (
            "No permission to use the Docker engine",
            "Add the SSH user to the group docker, or set ansible_become: true.",
        )
    elif number == errno.ENOENT:
        summary, fix = (
            "No Docker engine on the node",
            "Install Docker, or start it: systemctl start docker. If the socket is elsewhere (rootless, Podman), "
            "set gpuplan_docker_socket to its path. containerd without Docker is not supported.",
        )
    else:
        summary, fix = "The Docker engine does not answer", "Check the engine on the node: systemctl status docker"
    detail = f"{path}: {os.strerror(number)}."
    return Problem(Diagnostic(summary, detail, fix, address=node), Exit.UNREAD)


def _client(node: str, opener: Opener, version: str) -> docker.APIClient:
    made = docker.APIClient(base_url="unix://gpuplan", version=version, timeout=PATIENCE)
    made.mount("http+docker://", _Adapter(node, opener))
    return made


class _Connection(urllib3.connection.HTTPConnection):
    """HTTP on a stream of ours."""

    def __init__(self, opener: Opener, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._opener = opener

    def connect(self) -> None:
        self.sock = self._opener()
        self.sock.settimeout(PATIENCE)


class _Pool(urllib3.HTTPConnectionPool):
    """Keeps connections alive between requests, since each costs a channel and a process on the node."""

    def __init__(self, opener: Opener) -> None:
        super().__init__("localhost", timeout=PATIENCE, maxsize=IDLE)
        self._opener = opener

    def _new_conn(self) -> _Connection:
        return _Connection(self._opener, PATIENCE)


class _Adapter(requests.adapters.HTTPAdapter):
    """Sends the SDK's requests to the one engine there is, whatever proxies the environment names."""

    def __init__(self, node: str, opener: Opener) -> None:
        super().__init__()
        self._node = node
        self._pool = _Pool(opener)

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> _Pool:
        return self._pool

    def request_url(self, request: requests.PreparedRequest, proxies: Mapping[str, str] | None) -> str:
        del proxies
        return request.path_url

    def send(self, request: requests.PreparedRequest, *arguments: Any, **options: Any) -> requests.Response:
        try:
            response = super().send(request, *arguments, **options)
            if not options.get("stream"):
                _ = response.content  # read here, so that an incomplete answer fails here
            return response
        except requests.RequestException as error:
            waited = f"no answer within {options.get('timeout') or PATIENCE:g} s"
            why = waited if isinstance(error, requests.Timeout) else "the engine closed the connection"
            detail = f"{request.method} {request.path_url}: {why}."
            fix = "Check the engine on the node (systemctl status docker), then run gpuplan plan."
            raise Problem(
                Diagnostic("Lost the connection to the Docker engine", detail, fix, address=self._node), Exit.ERROR
            ) from error

    def close(self) -> None:
        self._pool.close()
        super().close()


# Starting the bridge to the Docker engine at the other end of a pipe.

CHATTER = 1 << 20
"""Bytes that may come before it."""
FIRST_WORD = re.compile(rb"gpuplan-bridge (\d+)\n")
"""What `agent/bridge.py` says; a login shell may have said something before it."""


def start_bridge(host: Host, pipe: Pipe) -> None:
    """Send the program and wait until it is connected; what comes after that is the engine's.

    Raises:
        Problem: the program did not start, or the engine cannot be reached.
    """

    said = b""
    until = time.monotonic() + START
    try:
        pipe.send(bridge_program())
        while (found := FIRST_WORD.search(said)) is None:
            piece = pipe.receive(max(0.0, until - time.monotonic()))
            if not piece or len(said) > CHATTER:
                raise ConnectionError
            said += piece
    except (OSError, EOFError) as error:
        raise Problem(explain_start(host.name, pipe.status(), pipe.complaint()), Exit.UNREAD) from error
    if number := int(found.group(1)):
        raise explain_engine(host.name, number, engine_socket(host))
