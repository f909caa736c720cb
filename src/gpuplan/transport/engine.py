"""The docker SDK over any stream to the engine's socket, with what goes wrong on the way told as a Problem."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import docker
import requests
import requests.adapters
import urllib3
from docker.constants import DEFAULT_DOCKER_API_VERSION

from gpuplan.transport.bundle import DOCKER_SOCKET
from gpuplan.transport.dialect import spoken
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem

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
    return _client(node, opener, spoken(node, about))


def explain_engine(node: str, number: int, path: str = DOCKER_SOCKET) -> Problem:
    """The Problem for a system error number of connect(2) to the engine's socket."""
    if number in (errno.EACCES, errno.EPERM):
        summary, fix = (
            "The Docker engine may not be used",
            "Add the user to the group docker, or set ansible_become: true.",
        )
    elif number == errno.ENOENT:
        summary, fix = (
            "The node has no Docker engine",
            "Install Docker there, or start it: systemctl start docker. A socket in another place, such as Podman's or "
            "that of a rootless engine, is named in gpuplan_docker_socket; containerd alone is not enough.",
        )
    else:
        summary, fix = "The Docker engine does not answer", "Look at it there: systemctl status docker"
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
                _ = response.content  # read here, so that an answer that breaks off is told here
            return response
        except requests.RequestException as error:
            waited = f"no word for {options.get('timeout') or PATIENCE:g} s"
            why = waited if isinstance(error, requests.Timeout) else "it ended the connection"
            detail = f"{request.method} {request.path_url}: {why}."
            fix = "Look at the engine there (systemctl status docker), then run plan again."
            raise Problem(
                Diagnostic("The Docker engine broke off", detail, fix, address=self._node), Exit.ERROR
            ) from error

    def close(self) -> None:
        self._pool.close()
        super().close()
