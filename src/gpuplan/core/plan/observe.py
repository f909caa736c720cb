"""Observe: ask every node at once; one that fails neither stops nor hides another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TypeVar

from gpuplan.transport.connect import connect
from gpuplan.transport.registry import ask_registries
from gpuplan.transport.session import Question, Session
from gpuplan.types.diagnostic import Diagnostic, Problem, internal_error
from gpuplan.types.inventory import Host
from gpuplan.types.outcome import Asked, Asking, Listener
from gpuplan.types.snapshot import Snapshot

MAX_PARALLEL_NODES = 32
"""Nodes that are worked on at the same time."""

INTERRUPT_POLL_SECONDS = 0.2
"""Seconds after which whoever waits looks up: a signal that comes while a wait is being begun would not end it."""

Found = TypeVar("Found")


@dataclass(frozen=True)
class NodeAnswer:
    """What one node said, or why it said nothing."""

    host: Host
    snapshot: Snapshot | None
    problems: tuple[Diagnostic, ...] = ()


def observe(hosts: Sequence[Host], question: Question, listen: Listener) -> tuple[NodeAnswer, ...]:
    """Ask all hosts the same question; the answers come in the order of the hosts."""
    return for_each_host(hosts, lambda host: ask_node(host, question, listen))


def ask_node(host: Host, question: Question, listen: Listener) -> NodeAnswer:
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
        return NodeAnswer(host, None, problem.diagnostics)
    except Exception as fault:  # noqa: BLE001 - one node's fault must not hide what the others say
        told = internal_error(host.name, fault, f"Asking {host.name}")
        listen(Asked(host.name, time.monotonic() - started, told.summary))
        return NodeAnswer(host, None, (told,))
    listen(Asked(host.name, time.monotonic() - started))
    return NodeAnswer(host, snapshot)


def _with_registries(session: Session, snapshot: Snapshot, images: Sequence[str]) -> Snapshot:
    """The snapshot with what registries say, where the plan file has them asked and the engine answers at all."""
    if not images or snapshot.probe("docker").error is not None:
        return snapshot
    return replace(snapshot, probes={**snapshot.probes, "registry": ask_registries(session, images)})


def read_probes(session: Session, plan: str, probes: Iterable[str]) -> Snapshot:
    """A second look over an open session: only the named probes."""
    return session.ask(Question(plan, tuple(probes)))


def for_each_host(
    hosts: Sequence[Host], work: Callable[[Host], Found], stop: threading.Event | None = None
) -> tuple[Found, ...]:
    """Do the same for every host, several at a time; results in the order of the hosts.

    With `stop`, an interrupt sets it and waits until all work has come to its own end; without, it goes through.
    """
    pool = ThreadPoolExecutor(max_workers=min(MAX_PARALLEL_NODES, max(1, len(hosts))), thread_name_prefix="node")
    running: list[Future[Found]] = []
    while True:
        try:
            running.extend(pool.submit(work, host) for host in hosts[len(running) :])
            while wait(running, timeout=INTERRUPT_POLL_SECONDS).not_done:
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


def boot_id(snapshot: Snapshot) -> str:
    """What the node calls its present boot; empty where it could not say."""
    host = snapshot.probe("host").value
    found = host.get("boot_id") if isinstance(host, Mapping) else None
    return found if isinstance(found, str) else ""


# Twins: two names of the inventory that turn out to be one machine; one plan file would undo what the other did.


def refuse_duplicate_machines(answers: Sequence[NodeAnswer]) -> tuple[NodeAnswer, ...]:
    """The answers, without those of nodes that are one and the same machine.

    A boot id is random and new with each boot (random(4), /proc/sys/kernel/random/boot_id), so that two machines never
    share one.
    """
    names: dict[str, list[str]] = {}
    for answer in answers:
        if answer.snapshot is not None and (boot := boot_id(answer.snapshot)):
            names.setdefault(boot, []).append(answer.host.name)
    twins = {name: others for others in names.values() if len(others) > 1 for name in others}
    return tuple(_refused(answer, twins) for answer in answers)


def _refused(answer: NodeAnswer, twins: Mapping[str, Sequence[str]]) -> NodeAnswer:
    if answer.host.name not in twins:
        return answer
    names = " and ".join(twins[answer.host.name])
    diagnostic = Diagnostic(
        "Two nodes of the inventory are one machine",
        f"{names} answer with the same boot id, so they are one machine under several names.",
        "Correct ansible_host of one of them, or take it out of the inventory.",
        where=answer.host.where,
        address=answer.host.name,
    )
    return replace(answer, snapshot=None, problems=(diagnostic,))
