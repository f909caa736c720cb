"""Observe: ask every node at once; one that fails neither stops nor hides another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TypeVar

from gpuplan.core.apply.internal_error import internal_error
from gpuplan.transport.connect import connect
from gpuplan.transport.registry import ask_registries
from gpuplan.transport.session import Question, Session
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.event import Asked, Asking, Listener
from gpuplan.types.inventory import Host
from gpuplan.types.snapshot import Snapshot

AT_ONCE = 32
"""Nodes that are worked on at the same time."""

LISTENING = 0.2
"""Seconds after which whoever waits looks up: a signal that comes while a wait is being begun would not end it."""

Found = TypeVar("Found")


@dataclass(frozen=True)
class Answer:
    """What one node said, or why it said nothing."""

    host: Host
    snapshot: Snapshot | None
    problems: tuple[Diagnostic, ...] = ()


def observe(hosts: Sequence[Host], question: Question, listen: Listener) -> tuple[Answer, ...]:
    """Ask all hosts the same question; the answers come in the order of the hosts."""
    return at_once(hosts, lambda host: ask(host, question, listen))


def ask(host: Host, question: Question, listen: Listener) -> Answer:
    """Connect to one node, ask it, and hang up. Never raises for what the node did."""
    started = time.monotonic()
    listen(Asking(host.name))
    try:
        session = connect(host)
        try:
            snapshot = _with_registries(session, session.ask(question), question.images.get(host.name, ()))
        finally:
            session.close()
    except Problem as problem:
        listen(Asked(host.name, time.monotonic() - started, problem.diagnostics[0].summary))
        return Answer(host, None, problem.diagnostics)
    except Exception as fault:  # noqa: BLE001 - one node's fault must not hide what the others say
        told = internal_error(host.name, fault, f"Asking {host.name}")
        listen(Asked(host.name, time.monotonic() - started, told.summary))
        return Answer(host, None, (told,))
    listen(Asked(host.name, time.monotonic() - started))
    return Answer(host, snapshot)


def _with_registries(session: Session, snapshot: Snapshot, images: Sequence[str]) -> Snapshot:
    """The snapshot with what registries say, where the plan file has them asked and the engine answers at all."""
    if not images or snapshot.probe("docker").error is not None:
        return snapshot
    return replace(snapshot, probes={**snapshot.probes, "registry": ask_registries(session, images)})


def look(session: Session, plan: str, probes: Iterable[str]) -> Snapshot:
    """A second look over an open session: only the named probes."""
    return session.ask(Question(plan, tuple(probes)))


def at_once(
    hosts: Sequence[Host], work: Callable[[Host], Found], stop: threading.Event | None = None
) -> tuple[Found, ...]:
    """Do the same for every host, several at a time; results in the order of the hosts.

    With `stop`, an interrupt sets it and waits until all work has come to its own end; without, it goes through.
    """
    pool = ThreadPoolExecutor(max_workers=min(AT_ONCE, max(1, len(hosts))), thread_name_prefix="node")
    running: list[Future[Found]] = []
    while True:
        try:
            running.extend(pool.submit(work, host) for host in hosts[len(running) :])
            while wait(running, timeout=LISTENING).not_done:
                continue
            found = tuple(each.result() for each in running)
        except KeyboardInterrupt:
            if stop is None or stop.is_set():
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            stop.set()
        else:
            pool.shutdown()
            return found
