"""Deliveries: what is bundled, who carries it, and that a cut anywhere costs only what was not yet written down."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.agent.agent import Agent
from gpuplan.agent.main import Frames, _serve
from gpuplan.transport import delivery
from gpuplan.transport.delivery import deliver
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem, Refused
from tests.agent.support import AgentCaller, FakeNode
from tests.conftest import examples
from tests.contents import content_of


class Courier:
    """A real agent on a node that is a directory; it can be told to break off."""

    def __init__(self, node: FakeNode, calls: int | None = None) -> None:
        self.agent = Agent(node)
        self.operations: list[str] = []
        self.left = calls

    def call(self, operation: str, arguments: Mapping[str, object], body: bytes | None = None) -> object:
        if self.left is not None:
            if self.left == 0:
                raise ConnectionLost(Diagnostic("The connection to the node was lost"))
            self.left -= 1
        self.operations.append(operation)
        answer = self.agent.handle({"op": operation, **arguments}, body)
        if "error" in answer:
            raise Refused("n", operation, answer["error"]["code"], answer["error"]["text"])
        return answer["ok"]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with small numbers."""
    for name, value in (("PIECE", 64), ("SMALL", 16), ("MOST_IN_PACK", 10), ("ALONE", 32)):
        monkeypatch.setattr(delivery, name, value)


def there(node: FakeNode, *contents: bytes) -> bool:
    digests = [hashlib.sha256(each).hexdigest() for each in contents]
    return AgentCaller(node).ok("blob.missing", digests=digests)["missing"] == []


def test_thousands_of_small_files_take_a_few_round_trips(node: FakeNode) -> None:
    contents = [str(number).encode() for number in range(3000)]
    courier = Courier(node)
    deliver([content_of(each) for each in contents], lambda _: None, courier)
    assert courier.operations == ["blob.pack"] * 3
    assert there(node, *contents)


@pytest.mark.usefixtures("tiny")
def test_packs_are_bounded_and_large_ones_come_first(node: FakeNode) -> None:
    contents = [bytes([number]) * 15 for number in range(9)] + [b"a" * 65, b"b" * 17]
    courier = Courier(node)
    arrived: list[int] = []
    deliver([content_of(each) for each in contents], arrived.append, courier)
    first = ["blob.begin", "blob.put", "blob.put", "blob.begin", "blob.put"]
    assert courier.operations == [*first, "blob.pack", "blob.pack", "blob.pack"]
    assert sum(arrived) == sum(map(len, contents))
    assert there(node, *contents)


@pytest.mark.usefixtures("tiny")
def test_several_carry_at_once_and_the_help_ends_with_the_work(node: FakeNode) -> None:
    contents = [bytes([number]) * 500 for number in range(8)]
    meeting = threading.Barrier(2, timeout=20)  # both are at work at the same time, or this breaks
    open_ones: list[Courier] = []

    class Meeting(Courier):
        def call(self, operation: str, arguments: Mapping[str, object], body: bytes | None = None) -> object:
            if not self.operations:
                meeting.wait()
            return super().call(operation, arguments, body)

    @contextmanager
    def further() -> Iterator[Courier]:
        open_ones.append(Meeting(node))
        yield open_ones[-1]
        open_ones.pop()

    deliver([content_of(each) for each in contents], lambda _: None, Meeting(node), [further])
    assert open_ones == []
    assert there(node, *contents)


@pytest.mark.usefixtures("tiny")
def test_help_that_cannot_be_had_is_done_without(node: FakeNode) -> None:
    contents = [bytes([number]) * 100 for number in range(4)]

    @contextmanager
    def none() -> Iterator[Courier]:
        raise Problem(Diagnostic("The SSH server refused another channel"))
        yield Courier(node)

    deliver([content_of(each) for each in contents], lambda _: None, Courier(node), [none, none])
    assert there(node, *contents)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("who", ["first", "helper"])
def test_a_failure_of_one_ends_the_delivery(node: FakeNode, who: str) -> None:
    contents = [bytes([number]) * 2000 for number in range(6)]

    @contextmanager
    def further() -> Iterator[Courier]:
        yield Courier(node, calls=3 if who == "helper" else None)

    with pytest.raises(ConnectionLost):
        deliver(
            [content_of(each) for each in contents],
            lambda _: None,
            Courier(node, calls=3 if who == "first" else None),
            [further] * 2,
        )
    deliver([content_of(each) for each in contents], lambda _: None, Courier(node))
    assert there(node, *contents)


def test_few_bytes_need_no_help(node: FakeNode) -> None:
    deliver([content_of(b"x" * 300_000), content_of(b"y")], lambda _: None, Courier(node), [pytest.fail])
    assert there(node, b"x" * 300_000, b"y")


def test_content_that_is_not_as_stated_is_refused(node: FakeNode) -> None:
    for data in (b"small", b"l" * 300_000):
        with pytest.raises(Refused) as refused:
            deliver([content_of(data, "0" * 64)], lambda _: None, Courier(node))
        assert refused.value.code == "corrupt"
    assert not os.listdir(Path(node.root, "blobs/incoming"))


@pytest.mark.faults
@settings(max_examples=examples(60), deadline=None)
@given(content=st.binary(min_size=1, max_size=300), cuts=st.lists(st.integers(0, 900), max_size=4))
def test_a_connection_cut_at_any_byte_is_gone_on_from(
    tmp_path_factory: object, content: bytes, cuts: list[int]
) -> None:
    """Every byte of requests and bodies up to the cut reaches the real loop of an agent, and none after it."""
    node = FakeNode(tmp_path_factory.mktemp("cut"))
    digest = hashlib.sha256(content).hexdigest()
    kept = 0
    for cut in cuts:
        have = AgentCaller(node).ok("blob.begin", digest=digest, size=len(content))["have"]
        assert have >= kept  # what was there stays
        kept = have
        if have < len(content):
            served(node, b"".join(frames(digest, content, have))[:cut])
    deliver([content_of(content)], lambda _: None, Large(node))
    assert there(node, content)


class Large(Courier):
    """Sends everything in pieces, however small it is."""

    def call(self, operation: str, arguments: Mapping[str, object], body: bytes | None = None) -> object:
        if operation != "blob.pack":
            return super().call(operation, arguments, body)
        ((digest, size),) = arguments["contents"].items()
        have = super().call("blob.begin", {"digest": digest, "size": size})
        if have["whole"]:
            return {}
        stated = {"digest": digest, "size": size, "offset": have["have"], "last": True}
        return super().call("blob.put", stated, body[have["have"] :])


def frames(digest: str, content: bytes, have: int) -> Iterator[bytes]:
    yield request({"op": "blob.begin", "digest": digest, "size": len(content)})
    for offset in range(have, len(content), 40):
        piece = content[offset : offset + 40]
        stated = {"digest": digest, "size": len(content), "offset": offset, "last": offset + len(piece) == len(content)}
        yield request({"op": "blob.put", **stated, "body": len(piece)}) + piece


def request(value: Mapping[str, object]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def served(node: FakeNode, stream: bytes) -> None:
    """An agent hears these bytes, and then the connection is gone."""
    theirs, ours = os.pipe()
    with open(os.devnull, "wb") as answers:
        os.write(ours, stream)
        os.close(ours)
        agent = Agent(node)
        with contextlib.suppress(ValueError):  # half a request is none
            _serve(agent, Frames(theirs, answers.fileno()), 5.0)
        agent.close()
    os.close(theirs)
