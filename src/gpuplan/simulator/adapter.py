"""The docker SDK over the simulated engine: requests' transport without a socket."""

from __future__ import annotations

import http.client
import io
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import BinaryIO, cast
from urllib.parse import parse_qsl, urlsplit

import docker
import requests
import requests.adapters
import urllib3
from docker.constants import DEFAULT_DOCKER_API_VERSION

from gpuplan.simulator.engine.http import Request, Response
from gpuplan.transport.dialect import spoken

BASE = "http://simulated:2375"
Answering = Callable[[Request], Response]


def simulated_client(node: str, answering: Answering) -> docker.APIClient:
    """An SDK client whose requests are answered in this process, in a version that both know."""
    about = _client(answering, DEFAULT_DOCKER_API_VERSION).version(api_version=False)
    return _client(answering, spoken(node, about))


def _client(answering: Answering, version: str) -> docker.APIClient:
    client = docker.APIClient(base_url=BASE, version=version)
    client.mount(BASE, _Adapter(answering))
    return client


class _Adapter(requests.adapters.BaseAdapter):
    """Takes a prepared request, gives the response that an HTTP connection would have given."""

    def __init__(self, answering: Answering) -> None:
        super().__init__()
        self._answering = answering

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: float | tuple[float, float] | tuple[float, None] | None = None,
        verify: bool | str = True,
        cert: bytes | str | tuple[bytes | str, bytes | str] | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """Answer one request."""
        del stream, timeout, verify, cert, proxies
        url = urlsplit(request.url or "")
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        response = self._answering(Request(request.method or "GET", url.path, query, _body(request.body)))
        raw = urllib3.HTTPResponse(
            body=cast("io.BytesIO", _parsed(request.method or "GET", response)),
            status=response.status,
            reason=http.client.responses.get(response.status, ""),
            preload_content=False,
            decode_content=False,
            headers={"Content-Type": response.kind},
        )
        return requests.adapters.HTTPAdapter().build_response(request, raw)

    def close(self) -> None:
        """Nothing to close."""


def _body(body: object) -> bytes | BinaryIO:
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytes) or hasattr(body, "read"):
        return cast("bytes | BinaryIO", body)
    return b"".join(cast("list[bytes]", body))


def _parsed(method: str, response: Response) -> http.client.HTTPResponse:
    """The response read off a wire, since the SDK reaches into the reader below it."""
    head = f"HTTP/1.1 {response.status} {http.client.responses.get(response.status, '')}\r\n"
    if response.frames is not None:
        return _hijacked(head, response)
    if response.chunks is not None:
        head += f"Content-Type: {response.kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
        body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in response.chunks) + b"0\r\n\r\n"
    else:
        head += f"Content-Type: {response.kind}\r\nContent-Length: {len(response.body)}\r\n\r\n"
        body = response.body
    parsed = http.client.HTTPResponse(cast("socket.socket", _Wire(head.encode() + body)), method=method)
    parsed.begin()
    return parsed


def _hijacked(head: str, response: Response) -> http.client.HTTPResponse:
    """A connection that the engine took over for a stream: the SDK polls its socket."""
    ours, theirs = socket.socketpair()
    ours.sendall(f"{head}Content-Type: application/vnd.docker.raw-stream\r\n\r\n".encode())
    parsed = http.client.HTTPResponse(theirs)
    parsed.begin()
    theirs.close()  # the response goes on holding it
    threading.Thread(target=_converse, args=(ours, response), name="simulated-exec", daemon=True).start()
    return parsed


def _converse(ours: socket.socket, response: Response) -> None:
    """Read what a program waits for, then send what it says."""
    with ours:
        given = b""
        while len(given) < response.awaited and (piece := ours.recv(response.awaited - len(given))):
            given += piece
        with suppress(OSError):  # a client that hangs up has heard enough
            ours.sendall(response.then(given) if response.then else response.frames or b"")


class _Wire:
    """As much of a socket as http.client reads from."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(io.BytesIO(self._data))
