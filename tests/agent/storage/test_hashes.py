"""Nothing is read twice: neither by another process, nor after a switch, and a file that moved is read again."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from gpuplan.agent.storage import blobs, hashes
from tests.agent.support import AgentCaller, FakeNode

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


def manifest(agent: AgentCaller) -> dict[str, object]:
    return agent.value("repository")["repositories"]["triton"]["models"]["m"]["files"]


def test_what_was_brought_is_never_read_again(node: FakeNode, reading: Reading) -> None:
    """Brought, switched, settled, restored, shared, collected: each act moves the times of the same files."""
    agent = AgentCaller(node)
    agent.switch("m", {"a": b"one", "b": b"shared"}, content="1" * 64)
    agent.switch("n", {"b": b"shared"}, content="1" * 64)
    manifest(agent)
    agent.switch("m", {"a": b"two", "b": b"shared"}, content="2" * 64)
    manifest(AgentCaller(node))
    agent.ok("repository.restore", **MODEL)
    agent.ok("blob.collect")
    other = AgentCaller(node)
    digests = [file["sha256"] for file in manifest(other).values()]
    assert other.ok("blob.missing", digests=digests)["missing"] == []
    other.ok("repository.switch", **MODEL, content="3" * 64, files={"a": digests[0], "b": digests[1]})
    other.ok("repository.settle", **MODEL)
    other.ok("repository.remove", **{**MODEL, "model": "n"})
    other.ok("blob.collect")
    found = {path: file["sha256"] for path, file in manifest(AgentCaller(node)).items()}
    assert found == dict(zip("ab", digests, strict=True))
    assert AgentCaller(node).ok("blob.missing", digests=digests)["missing"] == []
    assert reading.paths == []


def test_ten_gigabytes_are_told_without_a_look_inside(
    node: FakeNode, reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sparse file stands for the weights: read once by whoever meets it, and by nobody after."""
    agent = AgentCaller(node)
    agent.switch("m", {"config.pbtxt": b"x"})
    weights = Path(node.root, "plans/prod/triton/triton/models/m/weights.bin")
    with weights.open("wb") as file:
        file.truncate(10 * 2**30)
    monkeypatch.setattr(hashes, "hash_file", lambda path: reading.paths.append(path) or "f" * 64)
    later(monkeypatch)
    for _ in range(3):
        assert manifest(AgentCaller(node))["weights.bin"] == {"size": 10 * 2**30, "sha256": "f" * 64}
    assert len(reading.paths) == 1


def test_a_probe_whose_time_is_up_has_not_read_in_vain(
    node: FakeNode, reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that nobody knows, such as after a restored backup, take longer to read than a probe may."""
    AgentCaller(node).switch("m", {"a": b"one", "b": b"two"})
    Path(node.root, "hashes").unlink()
    later(monkeypatch)
    ended, real = threading.Event(), hashes.hash_file

    def slow(path: str) -> str:
        if len(reading.paths) == 1:
            ended.wait(30)
        return real(path)

    monkeypatch.setattr(hashes, "hash_file", slow)
    assert AgentCaller(node).probe("repository", deadline=0.3)["error"]["code"] == "timeout"
    ended.set()
    assert manifest(AgentCaller(node)).keys() == {"a", "b"}
    assert [os.path.basename(path) for path in reading.paths].count("a") == 1


def test_what_one_learned_oneself_is_not_read_again(agent: AgentCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = [agent.put(bytes([number])) for number in range(20)]
    Path(agent.node.root, "hashes").unlink()
    later(monkeypatch)
    opened = Mock(side_effect=open)
    monkeypatch.setattr(hashes, "hash_file", os.path.basename)
    monkeypatch.setattr(hashes, "open", opened, raising=False)
    assert AgentCaller(agent.node).ok("blob.missing", digests=digests)["missing"] == []
    assert opened.call_count == 0
    assert AgentCaller(agent.node).ok("blob.missing", digests=digests)["missing"] == []
    assert opened.call_count == 1


def test_a_file_that_was_just_written_is_read_again(agent: AgentCaller, reading: Reading) -> None:
    agent.switch("m", {"a": b"one"})
    edited = Path(agent.node.root, "plans/prod/triton/triton/models/m/a")
    edited.write_bytes(b"two")
    for _ in range(2):
        manifest(agent)
    assert len(reading.paths) == 2


@pytest.mark.parametrize("keep_times", [False, True])
def test_an_edit_is_seen_though_size_and_times_are_put_back(
    agent: AgentCaller, monkeypatch: pytest.MonkeyPatch, keep_times: bool
) -> None:
    agent.switch("m", {"a": b"one"})
    before = manifest(agent)["a"]["sha256"]
    edited = Path(agent.node.root, "plans/prod/triton/triton/models/m/a")
    state = edited.stat()
    edited.write_bytes(b"two")
    if keep_times:
        os.utime(edited, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert manifest(agent)["a"]["sha256"] != before
    assert agent.ok("blob.missing", digests=[before])["missing"] == [before]


def test_an_edit_is_not_covered_up_by_a_switch(agent: AgentCaller) -> None:
    agent.switch("m", {"a": b"one", "b": b"shared"})
    digest = manifest(agent)["b"]["sha256"]
    edited = Path(agent.node.root, "plans/prod/triton/triton/models/m/b")
    edited.write_bytes(b"SHARED")
    other = agent.put(b"other")
    agent.ok("repository.switch", **{**MODEL, "model": "n"}, content="d" * 64, files={"a": other})
    agent.switch("m", {"a": b"else"}, content="e" * 64)
    assert agent.ok("blob.missing", digests=[digest])["missing"] == [digest]


def test_a_torn_or_foreign_line_is_passed_over(agent: AgentCaller, reading: Reading) -> None:
    agent.switch("m", {"a": b"one"})
    file = Path(agent.node.root, "hashes")
    right = manifest(agent)["a"]["sha256"]
    assert file.stat().st_mode & 0o777 == 0o600
    good = file.read_bytes()
    file.write_bytes(b"\xff\n1 2 3\n" + good[: len(good) // 2] + b"\n" + good)
    assert manifest(AgentCaller(agent.node))["a"]["sha256"] == right
    assert reading.paths == []
    file.write_bytes(good[:-30])
    assert manifest(AgentCaller(agent.node))["a"]["sha256"] == right
    assert len(reading.paths) == 1


def test_what_is_gone_is_forgotten(agent: AgentCaller) -> None:
    for number in range(20):
        agent.switch("m", {"a": str(number).encode()}, content=f"{number:064}")
        agent.ok("repository.settle", **MODEL)
    agent.ok("blob.collect")
    assert len(Path(agent.node.root, "hashes").read_text().splitlines()) == 1


def test_a_root_that_takes_no_writing_costs_time_only(agent: AgentCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.switch("m", {"a": b"one"})
    right = manifest(agent)
    file = Path(agent.node.root, "hashes")
    file.unlink()
    file.mkdir()
    later(monkeypatch)
    assert manifest(AgentCaller(agent.node)) == right
    agent.switch("m", {"a": b"one"})
    assert blobs.MODE == 0o644
