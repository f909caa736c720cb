"""Sessions on this machine, and the Docker SDK over streams of ours."""

import contextlib
import http.server
import json
import logging
import os
import shutil
import socket
import socketserver
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import docker
import docker.errors
import pytest

from gpuplan.transport import bundle, local, pipe
from gpuplan.transport.connect import connect
from gpuplan.transport.session import Question, Session
from gpuplan.types.diagnostic import ConnectionLost, Problem
from gpuplan.types.inventory import Connection, Host

SECRET = "hf-0123456789"


class Engine(http.server.BaseHTTPRequestHandler):
    """As much of an engine as these tests need; counts its connections."""

    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if "broken" in self.path:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n")
            self.close_connection = True
            return
        body = json.dumps({"ApiVersion": "1.41", "Version": "20.10"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        """An engine that has read what a container is to be, and then fails as its name says."""
        assert SECRET.encode() in self.rfile.read(int(self.headers["Content-Length"]))
        if "refuses" in self.path:
            self.send_error(500)
        if "no-answer" in self.path:
            self.server.ending.wait(10)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass

    def address_string(self) -> str:
        return "local"


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def __init__(self, path: str) -> None:
        super().__init__(path, Engine)
        self.asked: list[str] = []
        self.connections = 0
        self.ending = threading.Event()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv("GPUPLAN_ROOT", str(tmp_path / "root"))
    return Host("here", connection=Connection.LOCAL)


@pytest.fixture
def session(host: Host) -> Iterator[Session]:
    opened = connect(host)
    yield opened
    opened.close()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where the engine's socket is looked for."""
    found = str(tmp_path / "docker.sock")
    monkeypatch.setattr(local, "DOCKER_SOCKET", found)
    monkeypatch.setattr(bundle, "DOCKER_SOCKET", found)
    bundle.bridge_program.cache_clear()
    yield found
    bundle.bridge_program.cache_clear()


@pytest.fixture
def engine(path: str) -> Iterator[Server]:
    with Server(path) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.ending.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def under_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who is not root, with a sudo that lets through."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "env").symlink_to(shutil.which("env"))
    sudo(programs, '[ "$1 $2" = "-n --" ] || exit 3\nshift 2\nexec "$@"')
    monkeypatch.setenv("PATH", f"{programs}:/bin:/usr/bin")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return programs


def sudo(programs: Path, script: str) -> None:
    (programs / "sudo").write_text(f"#!/bin/sh\n{script}\n")
    (programs / "sudo").chmod(0o755)


def summary(caught: pytest.ExceptionInfo[Problem]) -> str:
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.fix
    assert diagnostic.address == "here"
    return diagnostic.summary


def test_the_same_agent_answers(session: Session) -> None:
    snapshot = session.ask(Question("prod"))
    assert snapshot.probe("host").value["python"] == ".".join(map(str, sys.version_info[:3]))
    assert session.agent("lock.take", owner={}) == {"taken": True}
    with session.forward(8000, "10.0.0.1") as address:
        assert address == "10.0.0.1:8000"


def test_after_its_end_a_session_is_lost_and_stays_quiet(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe, "KEEPALIVE_INTERVAL", 0.01)
    opened = connect(host)
    assert opened.agent("lock.take", owner={}) == {"taken": True}
    opened.close()
    opened.close()
    with pytest.raises(ConnectionLost) as caught:
        opened.agent("lock.release")
    assert summary(caught) == "The connection to the node was lost"


def test_a_program_that_takes_nothing_or_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "STALLED", 0.1)
    monkeypatch.setattr(local, "GRACE", 0.1)
    program = local.LocalProgram([sys.executable, "-c", "import time; time.sleep(60)"])
    with pytest.raises(TimeoutError):
        program.send(bytes(1 << 22))
    with pytest.raises(TimeoutError):
        program.receive(0.05)
    program.stream.close()
    with pytest.raises(ConnectionError):
        program.receive(0.05)
    program.close()


def test_the_sdk_speaks_the_engines_version_over_one_connection(session: Session, engine: Server) -> None:
    client = session.docker()
    assert client.api_version == "1.41"
    for _ in range(5):
        client.version()
    assert engine.asked == ["/version", *["/v1.41/version"] * 5]
    assert engine.connections == 2  # one to learn the version, one for everything after it


def test_no_proxy_of_the_environment_comes_between(
    session: Session, engine: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert session.docker().version()["Version"] == "20.10"


def test_an_engine_that_breaks_off(session: Session, engine: Server) -> None:
    client = session.docker()
    with pytest.raises(Problem) as caught:
        client.inspect_image("broken")
    assert summary(caught) == "Lost the connection to the Docker engine"
    assert client.version()["Version"] == "20.10"


@pytest.mark.parametrize("way", ["breaks-off", "refuses", "no-answer", "no-engine"])
def test_what_a_container_is_given_is_in_no_words_of_ours(
    session: Session, engine: Server, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    caplog.set_level(logging.DEBUG)
    client = session.docker()
    settings = client.create_host_config(binds=[f"/{SECRET}:/x"])
    if way == "no-answer":
        client.timeout = 0.2
    if way == "no-engine":
        engine.server_close()
        os.unlink(engine.server_address)
        client.close()
    with pytest.raises((Problem, docker.errors.APIError)) as caught:
        client.create_container(
            "image", ["run", SECRET], name=way, environment=[f"TOKEN={SECRET}"], host_config=settings
        )
    told: BaseException | None = caught.value
    assert isinstance(told, docker.errors.APIError) == (way == "refuses")
    said = "".join(traceback.format_exception(told))
    while told is not None:
        said += f"{told!s} {told!r} {told.args!r}"
        told = told.__cause__ or told.__context__
    assert SECRET not in said
    assert SECRET not in caplog.text


def test_no_engine_and_a_dead_one(session: Session, path: str) -> None:
    with pytest.raises(Problem) as caught:
        session.docker()
    assert summary(caught) == "No Docker engine on the node"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(path)
        with pytest.raises(Problem) as caught:
            session.docker()
    assert summary(caught) == "The Docker engine does not answer"


def test_under_sudo_everything_goes_through_it(host: Host, engine: Server, under_sudo: Path) -> None:
    with contextlib.closing(connect(Host("here", connection=Connection.LOCAL, become=True))) as opened:
        client = opened.docker()
        for _ in range(5):
            client.version()
        assert engine.asked[-1] == "/v1.41/version"
        assert engine.connections == 2


def test_under_sudo_a_missing_engine_is_told_as_well(host: Host, path: str, under_sudo: Path) -> None:
    with contextlib.closing(connect(Host("here", connection=Connection.LOCAL, become=True))) as opened:
        with pytest.raises(Problem) as caught:
            opened.docker()
        assert summary(caught) == "No Docker engine on the node"


def test_sudo_that_refuses(host: Host, under_sudo: Path) -> None:
    sudo(under_sudo, "echo 'ops is not in the sudoers file.' >&2; exit 1")
    with pytest.raises(Problem) as caught:
        connect(Host("here", connection=Connection.LOCAL, become=True))
    assert summary(caught) == "sudo denied the command"
