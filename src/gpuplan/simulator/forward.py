"""A loopback port that reaches a port of the simulated node."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gpuplan.simulator.triton.answers import Answer
from gpuplan.simulator.triton.backends import NeverAnswers

_TURN = 0.02
HEAD = "Inference-Header-Content-Length"
"""Bytes of JSON before binary tensors (Triton's binary tensor data extension)."""


class Target:
    """What a forwarded port leads to."""

    def answer(self, method: str, path: str, body: bytes, head: int | None) -> Answer:
        """One request; `head` is the size of its JSON where binary tensors follow.

        Raises:
            OSError: nobody listens.
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
        """Answer one request, or close the connection as a port where nobody listens does."""
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
