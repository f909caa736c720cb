"""Nothing is read twice: neither by another process, nor after a switch, and a file that moved is read again."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from gpuplan.agent import blobs, hashes
from tests.transport.conftest import Asking, Node

MODEL = {"plan": "prod", "container": "triton", "model": "m"}


class Reading:
    """Counts the files that are hashed from the disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths: list[str] = []
        real = hashes.hash_file
        monkeypatch.setattr(hashes, "hash_file", lambda path: self.paths.append(path) or real(path))


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    return Reading(monkeypatch)


def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time enough has gone by for time stamps to be trusted."""
    now = time.time_ns() + 10**10
    monkeypatch.setattr(hashes.time, "time_ns", lambda: now)


def manifest(asking: Asking) -> dict[str, object]:
    return asking.value("repository")["repositories"]["triton"]["models"]["m"]["files"]


def test_what_was_brought_is_never_read_again(node: Node, reading: Reading) -> None:
    """Brought, switched, settled, restored, shared, collected: each act moves the times of the same files."""
    asking = Asking(node)
    asking.switch("m", {"a": b"one", "b": b"shared"}, content="1" * 64)
    asking.switch("n", {"b": b"shared"}, content="1" * 64)
    manifest(asking)
    asking.switch("m", {"a": b"two", "b": b"shared"}, content="2" * 64)
    manifest(Asking(node))
    asking.ok("repository.restore", **MODEL)
    asking.ok("blob.collect")
    other = Asking(node)
    digests = [file["sha256"] for file in manifest(other).values()]
    assert other.ok("blob.missing", digests=digests)["missing"] == []
    other.ok("repository.switch", **MODEL, content="3" * 64, files={"a": digests[0], "b": digests[1]})
    other.ok("repository.settle", **MODEL)
    other.ok("repository.remove", **{**MODEL, "model": "n"})
    other.ok("blob.collect")
    found = {path: file["sha256"] for path, file in manifest(Asking(node)).items()}
    assert found == dict(zip("ab", digests, strict=True))
    assert Asking(node).ok("blob.missing", digests=digests)["missing"] == []
    assert reading.paths == []


def test_ten_gigabytes_are_told_without_a_look_inside(
    node: Node, reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sparse file stands for the weights: read once by whoever meets it, and by nobody after."""
    asking = Asking(node)
    asking.switch("m", {"config.pbtxt": b"x"})
    weights = Path(node.root, "plans/prod/triton/triton/models/m/weights.bin")
    with weights.open("wb") as file:
        file.truncate(10 * 2**30)
    monkeypatch.setattr(hashes, "hash_file", lambda path: reading.paths.append(path) or "f" * 64)
    later(monkeypatch)
    for _ in range(3):
        assert manifest(Asking(node))["weights.bin"] == {"size": 10 * 2**30, "sha256": "f" * 64}
    assert len(reading.paths) == 1


def test_a_probe_whose_time_is_up_has_not_read_in_vain(
    node: Node, reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that nobody knows, such as after a restored backup, take longer to read than a probe may."""
    Asking(node).switch("m", {"a": b"one", "b": b"two"})
    Path(node.root, "hashes").unlink()
    later(monkeypatch)
    ended, real = threading.Event(), hashes.hash_file

    def slow(path: str) -> str:
        if len(reading.paths) == 1:
            ended.wait(30)
        return real(path)

    monkeypatch.setattr(hashes, "hash_file", slow)
    assert Asking(node).probe("repository", deadline=0.3)["error"]["code"] == "timeout"
    ended.set()
    assert manifest(Asking(node)).keys() == {"a", "b"}
    assert [os.path.basename(path) for path in reading.paths].count("a") == 1


def test_what_one_learned_oneself_is_not_read_again(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = [asking.put(bytes([number])) for number in range(20)]
    Path(asking.node.root, "hashes").unlink()
    later(monkeypatch)
    opened = Mock(side_effect=open)
    monkeypatch.setattr(hashes, "hash_file", os.path.basename)
    monkeypatch.setattr(hashes, "open", opened, raising=False)
    assert Asking(asking.node).ok("blob.missing", digests=digests)["missing"] == []
    assert opened.call_count == 0
    assert Asking(asking.node).ok("blob.missing", digests=digests)["missing"] == []
    assert opened.call_count == 1


def test_a_file_that_was_just_written_is_read_again(asking: Asking, reading: Reading) -> None:
    asking.switch("m", {"a": b"one"})
    edited = Path(asking.node.root, "plans/prod/triton/triton/models/m/a")
    edited.write_bytes(b"two")
    for _ in range(2):
        manifest(asking)
    assert len(reading.paths) == 2


@pytest.mark.parametrize("keep_times", [False, True])
def test_an_edit_is_seen_though_size_and_times_are_put_back(
    asking: Asking, monkeypatch: pytest.MonkeyPatch, keep_times: bool
) -> None:
    asking.switch("m", {"a": b"one"})
    before = manifest(asking)["a"]["sha256"]
    edited = Path(asking.node.root, "plans/prod/triton/triton/models/m/a")
    state = edited.stat()
    edited.write_bytes(b"two")
    if keep_times:
        os.utime(edited, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert manifest(asking)["a"]["sha256"] != before
    assert asking.ok("blob.missing", digests=[before])["missing"] == [before]


def test_an_edit_is_not_covered_up_by_a_switch(asking: Asking) -> None:
    asking.switch("m", {"a": b"one", "b": b"shared"})
    digest = manifest(asking)["b"]["sha256"]
    edited = Path(asking.node.root, "plans/prod/triton/triton/models/m/b")
    edited.write_bytes(b"SHARED")
    other = asking.put(b"other")
    asking.ok("repository.switch", **{**MODEL, "model": "n"}, content="d" * 64, files={"a": other})
    asking.switch("m", {"a": b"else"}, content="e" * 64)
    assert asking.ok("blob.missing", digests=[digest])["missing"] == [digest]


def test_a_torn_or_foreign_line_is_passed_over(asking: Asking, reading: Reading) -> None:
    asking.switch("m", {"a": b"one"})
    file = Path(asking.node.root, "hashes")
    right = manifest(asking)["a"]["sha256"]
    assert file.stat().st_mode & 0o777 == 0o600
    good = file.read_bytes()
    file.write_bytes(b"\xff\n1 2 3\n" + good[: len(good) // 2] + b"\n" + good)
    assert manifest(Asking(asking.node))["a"]["sha256"] == right
    assert reading.paths == []
    file.write_bytes(good[:-30])
    assert manifest(Asking(asking.node))["a"]["sha256"] == right
    assert len(reading.paths) == 1


def test_what_is_gone_is_forgotten(asking: Asking) -> None:
    for number in range(20):
        asking.switch("m", {"a": str(number).encode()}, content=f"{number:064}")
        asking.ok("repository.settle", **MODEL)
    asking.ok("blob.collect")
    assert len(Path(asking.node.root, "hashes").read_text().splitlines()) == 1


def test_a_root_that_takes_no_writing_costs_time_only(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    asking.switch("m", {"a": b"one"})
    right = manifest(asking)
    file = Path(asking.node.root, "hashes")
    file.unlink()
    file.mkdir()
    later(monkeypatch)
    assert manifest(Asking(asking.node)) == right
    asking.switch("m", {"a": b"one"})
    assert blobs.MODE == 0o644
