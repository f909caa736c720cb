"""Registries that are asked through an engine: one that is silent holds up a plan once, not for each of its images."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import docker
import pytest

from gpuplan.transport import registry
from gpuplan.transport.docker_client import client
from gpuplan.transport.registry import ask_registries
from gpuplan.transport.session import Session
from gpuplan.types.value import JsonObject, mapping

ABOUT = {"ApiVersion": "1.41", "MinAPIVersion": "1.12", "Version": "20.10.24"}
DIGEST = "sha256:" + "ab" * 32


class Engine(BaseHTTPRequestHandler):
    """Knows what the registry `good.io` says; of `silent.io` it never hears."""

    asked: list[str]
    ended: threading.Event

    def do_GET(self) -> None:
        if "silent.io" in self.path:
            self.asked.append(self.path)
            self.ended.wait()
            return
        said = ABOUT if self.path == "/version" else {"Descriptor": {"digest": DIGEST}}
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


class Answers:
    """What `ask_registries` needs of a session."""

    def __init__(self, place: tuple[str, int]) -> None:
        self._place = place

    def docker(self) -> docker.APIClient:
        return client("n", lambda: socket.create_connection(self._place))


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Engine]]:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setattr(registry, "PATIENCE", 0.3)
    Engine.asked, Engine.ended = [], threading.Event()
    yield Engine
    Engine.ended.set()


def test_a_silent_registry_is_asked_once(engine: type[Engine]) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), engine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        session: Session = Answers(server.server_address)  # type: ignore[assignment,arg-type]  # no more is asked of it
        images = ["silent.io/a:1", "good.io/a:1", "silent.io/b:1", "silent.io/c:1"]
        found: JsonObject = mapping(mapping(ask_registries(session, images).value).get("images"))
        engine.ended.set()
        server.shutdown()
    assert found["good.io/a:1"] == {"digest": DIGEST}
    assert len(engine.asked) == 1
    assert "no answer within 0.3 s" in str(found["silent.io/a:1"])
    assert found["silent.io/b:1"] == found["silent.io/c:1"] == {"problem": "silent.io does not answer."}
