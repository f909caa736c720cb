"""Asking a node's Docker engine from this machine, over its socket seen through /proc."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any, BinaryIO

from tests.lab.commands import LabError


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("docker", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket file instead of a TCP port."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Engine:
    """The Docker engine of the node whose first process is `pid`."""

    def __init__(self, pid: int) -> None:
        self._socket = Path(f"/proc/{pid}/root/run/docker.sock")

    def answers(self) -> bool:
        """Whether it is up."""
        try:
            return bool(self.ask("GET", "/_ping", timeout=2) == "OK")
        except (OSError, http.client.HTTPException, LabError):
            return False

    def ask(self, method: str, path: str, body: BinaryIO | None = None, timeout: float = 60) -> Any:
        """The engine's answer, decoded where it is JSON; LabError where it refuses."""
        connection = _Connection(self._socket, timeout)
        headers = {"Content-Type": "application/x-tar", "Transfer-Encoding": "chunked"} if body else {}
        try:
            connection.request(method, path, body=body, headers=headers, encode_chunked=bool(body))
            answer = connection.getresponse()
            text = answer.read().decode()
            is_json = answer.headers.get_content_type() == "application/json"
        finally:
            connection.close()
        if answer.status >= 400:
            raise LabError(f"docker: {method} {path}: {text.strip()}")
        return json.loads(text.splitlines()[-1]) if is_json and text else text

    def load(self, archive: Path) -> None:
        """`docker load`."""
        with archive.open("rb") as content:
            said = self.ask("POST", "/images/load?quiet=1", content, timeout=300)
        if isinstance(said, dict) and "error" in said:
            raise LabError(f"docker load {archive.name}: {said['error']}")

    def tags(self) -> dict[str, str]:
        """Image id by tag."""
        return {tag: image["Id"] for image in self.ask("GET", "/images/json") for tag in image["RepoTags"] or ()}
