"""The record, the journal and the lock."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuplan.agent.storage import files
from tests.agent.support import AgentCaller, FakeNode

OWNER = {"run": "r1", "who": "ops@bastion", "since": "2026-11-30T09:00:00Z", "pid": 1}


def test_the_record_comes_back_as_it_was_written(agent: AgentCaller) -> None:
    record = {"format": 1, "plan": "prod", "resources": {"n/gpu/a": {"digest": "d", "spec": {}, "needs": []}}}
    assert agent.value("record") is None
    agent.ok("record.write", plan="prod", record=record)
    assert agent.value("record") == record
    assert agent.value("record", "other") is None
    path = Path(agent.node.root, "plans/prod/record.json")
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_record_that_is_not_readable_is_not_absent(agent: AgentCaller) -> None:
    agent.ok("record.write", plan="prod", record={})
    path = Path(agent.node.root, "plans/prod/record.json")
    for broken in ("{", "[]", ""):
        path.write_text(broken)
        assert agent.probe("record")["error"]["code"] == "bad_record"


def test_removing_the_record_keeps_a_directory_that_still_has_a_repository(agent: AgentCaller) -> None:
    agent.ok("record.write", plan="prod", record={})
    agent.switch("m", {"a": b"x"})
    agent.ok("record.remove", plan="prod")
    assert agent.value("record") is None
    assert "triton" in agent.value("repository")["repositories"]
    agent.ok("repository.remove", plan="prod", container="triton", model=None)
    agent.ok("record.remove", plan="prod")
    assert os.listdir(Path(agent.node.root, "plans")) == []


def test_the_journal_grows_by_lines(agent: AgentCaller) -> None:
    agent.ok("journal.append", plan="prod", entries=[{"a": 1}, {"b": "ü\n"}])
    agent.ok("journal.append", plan="prod", entries=[{"c": 3}])
    lines = Path(agent.node.root, "plans/prod/journal.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"a": 1}, {"b": "ü\n"}, {"c": 3}]


def test_a_full_disk_is_told_and_leaves_the_old(agent: AgentCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.ok("record.write", plan="prod", record={"run": "old"})
    agent.ok("journal.append", plan="prod", entries=[{"run": "old"}])

    def full(descriptor: int, content: bytes) -> None:
        os.write(descriptor, content[:5])
        raise OSError(28, "No space left on device")

    for module in ("files", "record", "blobs"):
        monkeypatch.setattr(f"gpuplan.agent.storage.{module}.write_all", full)
    assert agent.refused("record.write", plan="prod", record={"run": "new"}) == "disk_full"
    assert agent.refused("journal.append", plan="prod", entries=[{"run": "new"}]) == "disk_full"
    assert agent.refused("blob.put", b"x", digest="a" * 64, size=1, offset=0, last=True) == "disk_full"
    small = hashlib.sha256(b"x").hexdigest()
    assert agent.refused("blob.pack", b"x", contents={small: 1}) == "disk_full"
    assert os.listdir(Path(agent.node.root, "blobs/incoming")) == []
    monkeypatch.undo()
    assert agent.value("record") == {"run": "old"}
    assert Path(agent.node.root, "plans/prod/journal.jsonl").read_text() == '{"run": "old"}\n'
    assert sorted(os.listdir(Path(agent.node.root, "plans/prod"))) == ["journal.jsonl", "record.json"]
    assert os.listdir(Path(agent.node.root, "blobs")) == ["incoming"]


def test_a_file_is_replaced_whole_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        files.write_atomically(str(tmp_path / "f"), b"x", 0o644)
    finally:
        os.umask(before)
    assert os.stat(tmp_path / "f").st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == ["f"]


def test_the_lock_excludes_a_second_holder_and_names_the_first(agent: AgentCaller, node: FakeNode) -> None:
    other = AgentCaller(node)
    assert agent.ok("lock.take", owner=OWNER) == {"taken": True}
    assert agent.ok("lock.take", owner=OWNER) == {"taken": True}
    assert other.ok("lock.take", owner={**OWNER, "run": "r2"}) == {"taken": False, "holder": OWNER}
    assert other.value("host")["lock"] == OWNER
    agent.ok("lock.release")
    assert other.value("host")["lock"] is None
    assert other.ok("lock.take", owner={**OWNER, "run": "r2"}) == {"taken": True}


def test_looking_who_holds_the_lock_takes_nothing(agent: AgentCaller, node: FakeNode) -> None:
    agent.ok("lock.take", owner=OWNER)
    agent.ok("lock.release")
    looking = AgentCaller(node)
    for _ in range(5):
        assert looking.value("host")["lock"] is None
        assert agent.ok("lock.take", owner=OWNER) == {"taken": True}
        agent.ok("lock.release")


def test_the_text_of_a_holder_that_is_gone_counts_for_nothing(agent: AgentCaller) -> None:
    script = f"""
from gpuplan.agent.agent import Agent
from gpuplan.agent.world import World
import os
print(Agent(World({agent.node.root!r})).handle({{"op": "lock.take", "owner": {{"run": "dead"}}}}), flush=True)
os._exit(1)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.stdout == b"{'ok': {'taken': True}}\n"
    assert Path(agent.node.root, "lock").read_text() == '{"run": "dead"}'
    assert agent.value("host")["lock"] is None
    assert agent.ok("lock.take", owner=OWNER) == {"taken": True}
