"""Delivery: contents on their way to a node. Small ones travel bundled, large ones go on where they were cut off."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from queue import Empty, SimpleQueue
from typing import Protocol, TypeAlias

from gpuplan.types.diagnostic import ConnectionLost, Problem, Refused
from gpuplan.types.value import Content, JsonObject, OnArrived

PIECE = 1 << 22
"""Bytes of content in one request: each waits for its answer, which over a slow link takes a while."""
SMALL = 1 << 18
"""Bytes up to which a content travels with others in one request."""
MOST_IN_PACK = 1000
ALONE = 1 << 24
"""Bytes up to which one courier is enough: a further one takes about half a second to start."""


class BlobReceiver(Protocol):
    """An agent that can be asked, with a body behind the request."""

    def call(self, operation: str, arguments: Mapping[str, object], body: bytes | None = None) -> JsonObject:
        """One operation; raises Refused, or ConnectionLost."""
        ...


StartAgent: TypeAlias = Callable[[], AbstractContextManager[BlobReceiver]]
"""Starts a further agent, for as long as the context is open; raises Problem where none can be had."""
_Job: TypeAlias = Sequence[Content]
"""One content that is large, or several that are small."""


def deliver(
    contents: Sequence[Content], arrived: OnArrived, agent: BlobReceiver, further: Sequence[StartAgent] = ()
) -> None:
    """Bring every content, over `agent` and as many further ones as are worth their start and can be had.

    Raises:
        Refused: the node has no room, or a content does not have its SHA-256; what is under way elsewhere is given up.
        Problem: the connection broke, or a source could not be read.
    """
    jobs = list(_jobs(contents))
    much = sum(each.size for each in contents) > ALONE or sum(map(len, jobs)) > MOST_IN_PACK
    _Delivery(jobs, arrived).run(agent, further[: len(jobs) - 1] if much and jobs else ())


def _jobs(contents: Sequence[Content]) -> Iterator[_Job]:
    """The large ones, the largest first, so that the couriers end together; then packs of the small ones."""
    large = [each for each in contents if each.size > SMALL]
    yield from ([each] for each in sorted(large, key=lambda each: -each.size))
    pack: list[Content] = []
    for each in (each for each in contents if each.size <= SMALL):
        if len(pack) == MOST_IN_PACK or sum(one.size for one in pack) + each.size > PIECE:
            yield pack
            pack = []
        pack.append(each)
    if pack:
        yield pack


class _Delivery:
    """Jobs that are waiting, and the couriers that take one after the other."""

    def __init__(self, jobs: Sequence[_Job], arrived: OnArrived) -> None:
        self._waiting: SimpleQueue[_Job] = SimpleQueue()
        for job in jobs:
            self._waiting.put(job)
        self._arrived = arrived
        self._failed = threading.Event()

    def run(self, agent: BlobReceiver, further: Sequence[StartAgent]) -> None:
        if not further:
            self._carry(agent)
            return
        with ThreadPoolExecutor(len(further), thread_name_prefix="courier") as pool:
            running = [pool.submit(self._help, start) for start in further]
            self._carry(agent)
            for each in running:
                each.result()

    def _help(self, start: StartAgent) -> None:
        """Carry over a further agent. One that cannot be had is done without: the first one carries all."""
        with contextlib.ExitStack() as stack:
            try:
                agent = stack.enter_context(start())
            except ConnectionLost:
                raise
            except Problem:
                return
            self._carry(agent)

    def _carry(self, agent: BlobReceiver) -> None:
        try:
            while not self._failed.is_set():
                job = self._waiting.get_nowait()
                if len(job) == 1 and job[0].size > SMALL:
                    _Courier(agent, self._arrived, self._failed).large(job[0])
                else:
                    _Courier(agent, self._arrived, self._failed).pack(job)
        except Empty:
            return
        except BaseException:
            self._failed.set()
            raise


class _Courier:
    """Carries one job over one agent, until one of them has failed."""

    def __init__(self, agent: BlobReceiver, arrived: OnArrived, failed: threading.Event) -> None:
        self._agent = agent
        self._arrived = arrived
        self._failed = failed
        self._there = 0

    def pack(self, contents: Sequence[Content]) -> None:
        """Small ones, all in one request."""
        body = b"".join(map(_whole, contents))
        self._agent.call("blob.pack", {"contents": {each.sha256: each.size for each in contents}}, body)
        self._arrived(sum(each.size for each in contents))

    def large(self, content: Content) -> None:
        """One in pieces, from where it was cut off; what was damaged there is dropped by the node, and sent again."""
        begun = self._agent.call("blob.begin", {"digest": content.sha256, "size": content.size})
        have = begun["have"] if isinstance(begun["have"], int) else 0
        self._tell(have)
        if begun["whole"] is True:
            return
        try:
            self._pieces(content, have)
        except Refused as refusal:
            if refusal.code != "corrupt" or not have:
                raise
            self._tell(-self._there)
            self._pieces(content, 0)

    def _tell(self, more: int) -> None:
        self._there += more
        self._arrived(more)

    def _pieces(self, content: Content, offset: int) -> None:
        with content.open() as file:
            file.seek(offset)
            last = False
            while not last and not self._failed.is_set():
                piece = file.read(min(PIECE, content.size - offset))
                last = offset + len(piece) >= content.size or not piece
                stated = {"digest": content.sha256, "size": content.size, "offset": offset, "last": last}
                self._agent.call("blob.put", stated, piece)
                self._tell(len(piece))
                offset += len(piece)


def _whole(content: Content) -> bytes:
    with content.open() as file:
        return file.read()
