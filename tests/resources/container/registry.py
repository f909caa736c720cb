"""A registry with a password, for a node of the lab: enough of the distribution API for one image of one layer.

Runs on the node, by its own Python: `registry.py PORT USER:PASSWORD`. Which of its two images the tag means is in the
file `tag` beside it.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
PLACE = os.path.dirname(os.path.abspath(__file__))
BLOBS: dict[str, bytes] = {}


def keep(content: bytes) -> dict[str, object]:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    BLOBS[digest] = content
    return {"digest": digest, "size": len(content)}


def image(name: str) -> str:
    """The digest of an image's manifest."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as layer:
        layer.addfile(tarfile.TarInfo(f"which-{name}"))
    diff = f"sha256:{hashlib.sha256(packed.getvalue()).hexdigest()}"
    config = {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["/none"]}, "rootfs": {"type": "layers"}}
    config["rootfs"]["diff_ids"] = [diff]  # type: ignore[index]  # the literal above is one of texts and objects
    described = {"mediaType": "application/vnd.docker.container.image.v1+json", **keep(json.dumps(config).encode())}
    packed_layer = keep(gzip.compress(packed.getvalue(), mtime=0))
    layers = [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", **packed_layer}]
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": layers}
    return str(keep(json.dumps(manifest).encode())["digest"])


class Registry(BaseHTTPRequestHandler):
    password = ""
    tags: dict[str, str] = {}  # noqa: RUF012 - set once, before it serves

    def do_HEAD(self) -> None:
        self.answer(False)

    def do_GET(self) -> None:
        self.answer(True)

    def answer(self, body: bool) -> None:
        wanted = "Basic " + base64.b64encode(self.password.encode()).decode()
        if self.headers.get("Authorization") != wanted:
            said = json.dumps({"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}).encode()
            self.say(401, said, "application/json", {"WWW-Authenticate": 'Basic realm="lab"'}, body)
            return
        name = self.path.rpartition("/")[2]
        if name == "1":
            with open(os.path.join(PLACE, "tag"), encoding="ascii") as file:
                name = self.tags[file.read().strip()]
        content = BLOBS.get(name, b"{}")
        kind = MANIFEST if "/manifests/" in self.path else "application/octet-stream"
        self.say(200, content, kind, {"Docker-Content-Digest": name}, body)

    def say(self, status: int, content: bytes, kind: str, headers: dict[str, str], body: bool) -> None:
        self.send_response(status)
        for header, value in {"Content-Type": kind, "Content-Length": str(len(content)), **headers}.items():
            self.send_header(header, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    Registry.password = sys.argv[2]
    Registry.tags = {name: image(name) for name in ("old", "new")}
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Registry).serve_forever()
