"""Blobs, repositories, records and the lock: the same agent, on another disk."""

from __future__ import annotations

import hashlib
import io
from contextlib import nullcontext

import pytest

from gpuplan.transport.session import Session
from gpuplan.types.diagnostic import Refused
from gpuplan.types.value import Content
from tests.contents import bring, content_of
from tests.contract.node import PLAN, Node

OWNER = {"run": "r1", "who": "me@here", "since": "2026-01-01T00:00:00Z", "pid": 4711}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def code(node: Node, operation: str, **arguments: object) -> str:
    with pytest.raises(Refused) as refused:
        node.session.agent(operation, **arguments)
    return refused.value.code


def test_content_arrives_whole_and_once(node: Node) -> None:
    data = bytes(range(256)) * 4096
    assert missing(node.session, data) == {digest(data): 0}
    assert sum(bring(node.session, content_of(data), content_of(b"small"))) == len(data) + 5
    assert missing(node.session, data) == {}
    with pytest.raises(Refused) as refused:
        bring(node.session, content_of(b"else", "0" * 64))
    assert refused.value.code == "corrupt"
    other = node.reopened()
    try:
        assert other.agent("blob.collect") == {"removed": 2, "bytes": len(data) + 5}
    finally:
        other.close()


def missing(session: Session, data: bytes) -> object:
    return session.agent("blob.missing", digests=[digest(data)])["arrived"]


@pytest.mark.parametrize("damaged", [False, True])
def test_what_was_cut_off_is_gone_on_with_and_what_is_damaged_is_sent_again(node: Node, damaged: bool) -> None:
    data = bytes(range(256)) * 4096
    half = len(data) // 2
    before = bytes(len(data)) if damaged else data

    class Cut(Exception):
        pass

    class Reader(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() >= half:
                raise Cut
            return super().read(min(half, size or 0))

    other = node.reopened()
    try:
        with pytest.raises(Cut):
            bring(other, Content(digest(data), len(data), lambda: nullcontext(Reader(before))))
    finally:
        other.close()
    assert missing(node.session, data) == {digest(data): half}
    assert bring(node.session, content_of(data)) == [half, *([-half, len(data)] if damaged else [half])]
    assert missing(node.session, data) == {}


def test_the_files_before_come_back(node: Node) -> None:
    arguments = {"plan": PLAN, "container": "triton", "model": "a"}
    node.write_model("a", {"1/x": "one"}, "1" * 64)
    assert code(node, "repository.restore", **arguments) == "not_found"
    node.write_model("a", {"1/x": "two"}, "2" * 64)
    assert node.session.agent("repository.restore", **arguments) == {"content": "1" * 64}
    found = node.ask("repository")["repository"]["repositories"]["triton"]["models"]["a"]
    assert found["content"] == "1" * 64
    assert found["files"]["1/x"]["sha256"] == digest(b"one")
    node.write_model("a", {"1/x": "two"}, "2" * 64)
    node.session.agent("repository.settle", **arguments)
    assert code(node, "repository.restore", **arguments) == "not_found"


def test_a_repository_from_beginning_to_end(node: Node) -> None:
    path = node.session.agent("repository.prepare", plan=PLAN, container="triton")["path"]
    assert str(path).endswith(f"/plans/{PLAN}/triton/triton")
    node.write_model("a", {"1/x": "one"}, "1" * 64)
    node.write_model("a", {"1/x": "two", "2/": ""}, "2" * 64)
    found = node.ask("repository")["repository"]["repositories"]["triton"]["models"]["a"]
    assert found["content"] == "2" * 64
    assert found["files"]["1/x"] == {"size": 3, "sha256": digest(b"two")}
    arguments = {"plan": PLAN, "container": "triton"}
    node.session.agent("repository.load_at_start", **arguments, model="a", wanted=True)
    assert node.ask("repository")["repository"]["repositories"]["triton"]["load_models"] == ["a"]
    node.session.agent("repository.remove", **arguments, model="a")
    assert node.ask("repository")["repository"]["repositories"]["triton"] == {"load_models": [], "models": {}}
    node.session.agent("repository.remove", **arguments, model=None)
    assert node.ask("repository")["repository"] == {"repositories": {}}


def test_a_model_of_content_that_is_not_there(node: Node) -> None:
    arguments = {"plan": PLAN, "container": "triton", "model": "a", "content": "1" * 64}
    assert code(node, "repository.switch", **arguments, files={"1/x": "1" * 64}) == "not_found"
    assert code(node, "repository.switch", **arguments, files={"../x": "1" * 64}) == "invalid"


def test_the_record_is_kept(node: Node) -> None:
    assert node.ask("record")["record"] is None
    record = {"format": 1, "plan": PLAN, "run": "r1", "resources": {}, "remembered": {}, "bystanders": []}
    node.session.agent("record.write", plan=PLAN, record=record)
    node.session.agent("journal.append", plan=PLAN, entries=[{"step": 1}])
    assert node.ask("record")["record"] == record
    node.session.agent("record.remove", plan=PLAN)
    assert node.ask("record")["record"] is None


def test_the_lock_belongs_to_one_session(node: Node) -> None:
    assert node.session.agent("lock.take", owner=OWNER) == {"taken": True}
    other = node.reopened()
    try:
        refused = other.agent("lock.take", owner={**OWNER, "who": "other"})
        assert (refused["taken"], refused["holder"]) == (False, OWNER)
        assert node.ask("host")["host"]["lock"] == OWNER
        node.session.agent("lock.release")
        assert other.agent("lock.take", owner={**OWNER, "who": "other"}) == {"taken": True}
    finally:
        other.close()
    assert node.session.agent("lock.take", owner=OWNER) == {"taken": True}


def test_an_unknown_operation(node: Node) -> None:
    assert code(node, "make.coffee") == "invalid"
