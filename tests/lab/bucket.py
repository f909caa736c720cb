"""Object storage for the lab: the few requests of S3 that Triton sends, answered from a directory of this machine."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

KEY = "lab-key-id"
"""The one access key that is let in."""


class Bucket(BaseHTTPRequestHandler):
    """`/BUCKET/KEY` is a file below `top`; a request that bears no signature of KEY is refused, as S3 does."""

    top: ClassVar[Path]
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the library gives it
        """Nothing: the test's own output is enough."""

    def _answer(self, *, with_body: bool) -> None:
        url = urlsplit(self.path)
        place = (self.top / unquote(url.path).lstrip("/")).resolve()
        asked = parse_qs(url.query)
        if f"Credential={KEY}/" not in self.headers.get("Authorization", ""):
            status, body = 403, b"<Error><Code>AccessDenied</Code></Error>"
        elif not place.is_relative_to(self.top):
            status, body = 404, b"<Error><Code>NoSuchKey</Code></Error>"
        elif "list-type" in asked:
            status, body = 200, _listed(place, asked.get("prefix", [""])[0])
        elif place.is_file():
            status, body = 200, place.read_bytes()
        else:
            status, body = (200 if place.is_dir() and place.parent == self.top else 404), b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "Mon, 30 Nov 2026 09:00:00 GMT")
        self.end_headers()
        if with_body:
            self.wfile.write(body)


@contextlib.contextmanager
def bucket(top: Path, address: str) -> Iterator[int]:
    """The directories of `top` as buckets, on a port of this address; the port."""
    served = type("Served", (Bucket,), {"top": top.resolve()})
    with ThreadingHTTPServer((address, 0), served) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def _listed(bucket: Path, prefix: str) -> bytes:
    files = sorted(path for path in bucket.rglob("*") if path.is_file())
    keys = [key for key in (path.relative_to(bucket).as_posix() for path in files) if key.startswith(prefix)]
    contents = "".join(f"<Contents><Key>{escape(key)}</Key><Size>1</Size></Contents>" for key in keys)
    head = f"<Name>{bucket.name}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(keys)}</KeyCount>"
    body = f"{head}<MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{contents}"
    return f'<?xml version="1.0"?><ListBucketResult>{body}</ListBucketResult>'.encode()
