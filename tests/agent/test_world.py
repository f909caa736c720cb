"""What the agent touches of a real node."""

import contextlib
import os
import socket
import threading
from pathlib import Path

import pytest

from gpuplan.agent import world
from gpuplan.agent.failure import Failure
from gpuplan.agent.world import CONTAINER, World

ID = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "line",
    [
        f"12:devices:/docker/{ID}",
        f"4:memory:/system.slice/docker-{ID}.scope",
        f"0::/system.slice/docker-{ID}.scope",
        f"0::/system.slice/docker-{ID}.scope/init.scope",
        f"11:cpu:/\n12:devices:/docker/{ID}\n0::/",
        f"0::/{ID}",
    ],
)
def test_a_cgroup_names_the_container(line: str) -> None:
    assert CONTAINER.search(line).group(1) == ID


@pytest.mark.parametrize("line", ["0::/", "0::/user.slice/session-3.scope", f"0::/x/{ID[:63]}", f"0::/x/{ID}0"])
def test_other_cgroups_name_none(line: str) -> None:
    assert CONTAINER.search(line) is None


def test_folders_of_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b", "a", ".git"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    assert World().folders(str(tmp_path)) == ["a", "b"]
    monkeypatch.setattr(world, "MOST_FOLDERS", 1)
    with pytest.raises(Failure) as caught:
        World().folders(str(tmp_path))
    assert caught.value.code == "too_large"


def test_a_process_by_its_number() -> None:
    found = World().process(os.getpid())
    assert found["name"].startswith("python") or found["name"] == "pytest"
    assert World().process(2**22 + 1) == {"name": "", "container": None, "service": None}


def test_the_host_as_proc_tells_it() -> None:
    found = World().host()
    assert found["hostname"] == socket.gethostname()
    assert found["uid"] == os.geteuid()
    assert found["uptime_seconds"] > 0
    assert len(found["boot_id"]) == 36


def test_the_root_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUPLAN_ROOT", raising=False)
    assert World().root == "/var/lib/gpuplan"
    monkeypatch.setenv("GPUPLAN_ROOT", "/elsewhere")
    assert World().root == "/elsewhere"


def test_the_engine_is_asked_over_its_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "docker.sock")
    monkeypatch.setattr(world, "DOCKER_SOCKET", path)
    with pytest.raises(FileNotFoundError):
        World().engine("GET", "/version")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        with pytest.raises(ConnectionRefusedError):
            World().engine("GET", "/version")
        listener.listen()
        heard: list[bytes] = []

        def serve() -> None:
            link, _ = listener.accept()
            heard.append(link.recv(4096))
            link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            link.close()

        thread = threading.Thread(target=serve)
        thread.start()
        assert World().engine("GET", "/version") == (200, b"{}")
        thread.join()
    assert heard[0].startswith(b"GET /version HTTP/1.1\r\n")


def test_a_server_that_speaks_no_http_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            link, _ = listener.accept()
            link.sendall(b"SSH-2.0-x\r\n")
            link.close()

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(OSError, match=r"HTTP|reset"):
            World().triton(f"127.0.0.1:{listener.getsockname()[1]}", "GET", "/v2", None, 5)
        thread.join()


def answered(serve: bytes) -> socket.socket:
    """A server for one request, which it answers with these bytes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        link, _ = listener.accept()
        with link, contextlib.suppress(OSError):
            link.recv(4096)
            link.sendall(serve)

    threading.Thread(target=answer, daemon=True).start()
    return listener


@pytest.mark.parametrize("size", [100, 101, 5000])
@pytest.mark.parametrize("chunked", [True, False])
def test_an_answer_out_of_all_proportion_is_not_read(monkeypatch: pytest.MonkeyPatch, size: int, chunked: bool) -> None:
    monkeypatch.setattr(world, "LARGEST", 100)
    head = b"HTTP/1.1 200 OK\r\n"
    body = b"x" * size
    if chunked:
        served = head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (size, body)
    else:
        served = head + b"Content-Length: %d\r\n\r\n%b" % (size, body)
    with answered(served) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        if size <= 100:
            assert World().triton(address, "GET", "/v2", None, 5) == (200, body)
        else:
            with pytest.raises(Failure) as caught:
                World().triton(address, "GET", "/v2", None, 5)
            assert caught.value.code == "too_large"


@pytest.mark.parametrize("rest", [b"Content-Length: 10\r\n\r\nab", b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"])
def test_an_answer_that_breaks_off_is_none(rest: bytes) -> None:
    with answered(b"HTTP/1.1 200 OK\r\n" + rest) as server, pytest.raises(ConnectionError):
        World().triton(f"127.0.0.1:{server.getsockname()[1]}", "GET", "/v2", None, 5)
