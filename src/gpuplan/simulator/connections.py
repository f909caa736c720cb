"""The docker SDK over the simulated engine: requests' transport without a socket."""

from __future__ import annotations

import http.client
import io
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import BinaryIO, cast
from urllib.parse import parse_qsl, urlsplit

import docker
import requests
import requests.adapters
import urllib3
from docker.constants import DEFAULT_DOCKER_API_VERSION

from gpuplan.simulator.engine.http import EngineRequest, EngineResponse
from gpuplan.simulator.triton.model_files import NeverAnswers
from gpuplan.simulator.triton.protocol import TritonAnswer
from gpuplan.transport.docker_client import api_version

BASE = "http://simulated:2375"
Answering = Callable[[EngineRequest], EngineResponse]


def simulated_client(node: str, answering: Answering) -> docker.APIClient:
    """An SDK client whose requests are answered in this process, in a version that both know."""
    about = _client(answering, DEFAULT_DOCKER_API_VERSION).version(api_version=False)
    return _client(answering, api_version(node, about))


def _client(answering: Answering, version: str) -> docker.APIClient:
    client = docker.APIClient(base_url=BASE, version=version)
    client.mount(BASE, _EngineAdapter(answering))
    return client


class _EngineAdapter(requests.adapters.BaseAdapter):
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
        response = self._answering(EngineRequest(request.method or "GET", url.path, query, _body(request.body)))
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


def _parsed(method: str, response: EngineResponse) -> http.client.HTTPResponse:
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


def _hijacked(head: str, response: EngineResponse) -> http.client.HTTPResponse:
    """A connection that the engine took over for a stream: the SDK polls its socket."""
    ours, theirs = socket.socketpair()
    ours.sendall(f"{head}Content-Type: application/vnd.docker.raw-stream\r\n\r\n".encode())
    parsed = http.client.HTTPResponse(theirs)
    parsed.begin()
    theirs.close()  # the response goes on holding it
    threading.Thread(target=_converse, args=(ours, response), name="simulated-exec", daemon=True).start()
    return parsed


def _converse(ours: socket.socket, response: EngineResponse) -> None:
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


# A loopback port that reaches a port of the simulated node.

_TURN = 0.02
HEAD = "Inference-Header-Content-Length"
"""Bytes of JSON before binary tensors (Triton's binary tensor data extension)."""


class Target:
    """What a forwarded port leads to."""

    def answer(self, method: str, path: str, body: bytes, head: int | None) -> TritonAnswer:
        """One request; `head` is the size of its JSON where binary tensors follow.

        Raises:
            OSError: nothing listens on the port.
            NeverAnswers: the server hangs.
        """
        raise NotImplementedError

    def hung(self) -> bool:
        """Wait a little for a hung server; False once it is gone."""
        raise NotImplementedError


@contextmanager
def forwarded(target: Target) -> Iterator[str]:
    """`host:port` on this machine that reaches the target while the context is open."""

    class Handler(_Handler):
        reached = target

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(_TURN,), name="simulated-forward", daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    reached: Target

    def answer(self) -> None:
        """Answer one request, or close the connection, as a port without a listener does."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            answer = self.reached.answer(self.command, self.path, body, self._head())
        except NeverAnswers:
            while self.reached.hung():
                pass
            self.close_connection = True
            return
        except OSError:
            self.close_connection = True
            return
        self.send_response(answer.status)
        if answer.head is None:
            self.send_header("Content-Type", "application/json")
        else:
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header(HEAD, str(answer.head))
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def _head(self) -> int | None:
        stated = self.headers.get(HEAD) or ""
        return int(stated) if stated.isdigit() else None

    def __getattr__(self, name: str) -> Callable[[], None]:
        """The server looks for do_GET, do_POST and so on: all methods are answered the same way."""
        if name.startswith("do_"):
            return self.answer
        raise AttributeError(name)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the overridden method
        """Say nothing."""
