"""A loopback port that reaches a port of the simulated node."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gpuplan.simulation.triton.backends import NeverAnswers
from gpuplan.simulation.triton.serve import Answer

_TURN = 0.02


class Target:
    """What a forwarded port leads to."""

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        """One request; raises OSError where nobody listens, NeverAnswers where the server hangs."""
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
            status, content = self.reached.answer(self.command, self.path, body)
        except NeverAnswers:
            while self.reached.hung():
                pass
            self.close_connection = True
            return
        except OSError:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def __getattr__(self, name: str) -> Callable[[], None]:
        """The server looks for do_GET, do_POST and so on: all methods are answered the same way."""
        if name.startswith("do_"):
            return self.answer
        raise AttributeError(name)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the overridden method
        """Say nothing."""
