"""Asks all nodes for their snapshots at the same time; a node that fails does not stop the others."""

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
INTERRUPT_POLL_SECONDS = 0.2
"""A wait without a limit would miss a signal that arrives just before it begins."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class NodeAnswer:
    """One node's snapshot, or the reasons why there is none."""

    host: Host
    snapshot: Snapshot | None
    problems: tuple[Diagnostic, ...] = ()


def observe(hosts: Sequence[Host], question: Question, listen: Listener) -> tuple[NodeAnswer, ...]:
    """Ask all hosts the same question; the answers are in the order of the hosts."""
    return for_each_host(hosts, lambda host: ask_node(host, question, listen))


def ask_node(host: Host, question: Question, listen: Listener) -> NodeAnswer:
    """Connect to one node, ask it, and disconnect. Errors are part of the answer."""
    started = time.monotonic()
    listen(Asking(host.name))
    try:
        session = connect(host)
        try:
            snapshot = _with_registries(session, session.ask(question), question.images.get(host.name, ()))
        finally:
            session.close()
    except Problem as problem:
        answer = NodeAnswer(host, None, problem.diagnostics)
    except Exception as error:  # noqa: BLE001 - a bug met on one node must not hide the other nodes' answers
        answer = NodeAnswer(host, None, (internal_error(host.name, error, f"Reading {host.name}"),))
    else:
        answer = NodeAnswer(host, snapshot)
    summary = answer.problems[0].summary if answer.problems else ""
    listen(Asked(host.name, time.monotonic() - started, summary))
    return answer


def _with_registries(session: Session, snapshot: Snapshot, images: Sequence[str]) -> Snapshot:
    """Add the registries' digests of the images, if the Docker engine answers."""
    if not images or snapshot.probe("docker").error is not None:
        return snapshot
    return replace(snapshot, probes={**snapshot.probes, "registry": ask_registries(session, images)})


def read_probes(session: Session, plan: str, probes: Iterable[str]) -> Snapshot:
    """A snapshot of only the named probes, over an open session."""
    return session.ask(Question(plan, tuple(probes)))


def for_each_host(
    hosts: Sequence[Host], work: Callable[[Host], Result], stop: threading.Event | None = None
) -> tuple[Result, ...]:
    """Run `work` for every host, up to MAX_PARALLEL_NODES at a time; results are in the order of the hosts.

    Ctrl-C sets `stop` and waits until the work under way has ended; without `stop`, or the second time, it is raised.
    """
    pool = ThreadPoolExecutor(max_workers=min(MAX_PARALLEL_NODES, max(1, len(hosts))), thread_name_prefix="node")
    running: list[Future[Result]] = []
    while True:
        try:
            running.extend(pool.submit(work, host) for host in hosts[len(running) :])
            while wait(running, timeout=INTERRUPT_POLL_SECONDS).not_done:
                continue
            results = tuple(future.result() for future in running)
        except KeyboardInterrupt:
            if stop is None or stop.is_set():
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            stop.set()
        else:
            pool.shutdown()
            return results


def boot_id(snapshot: Snapshot) -> str:
    """The random id of the node's current boot; empty if it was not reported."""
    host = snapshot.probe("host").value
    boot = host.get("boot_id") if isinstance(host, Mapping) else None
    return boot if isinstance(boot, str) else ""


def refuse_duplicate_machines(answers: Sequence[NodeAnswer]) -> tuple[NodeAnswer, ...]:
    """The answers; a node that is the same machine as another gets an error instead of its snapshot.

    Otherwise the changes for one name would undo those for the other. A boot id is random and new at each boot
    (random(4), /proc/sys/kernel/random/boot_id), so two machines never share one.
    """
    names_by_boot: dict[str, list[str]] = {}
    for answer in answers:
        if answer.snapshot is not None and (boot := boot_id(answer.snapshot)):
            names_by_boot.setdefault(boot, []).append(answer.host.name)
    duplicates = {name: names for names in names_by_boot.values() if len(names) > 1 for name in names}
    return tuple(
        _refuse(answer, duplicates[answer.host.name]) if answer.host.name in duplicates else answer
        for answer in answers
    )


def _refuse(answer: NodeAnswer, names: Sequence[str]) -> NodeAnswer:
    diagnostic = Diagnostic(
        "Two nodes of the inventory are the same machine",
        f"{' and '.join(names)} report the same boot id.",
        "Correct ansible_host of one of them, or remove one from the inventory.",
        where=answer.host.where,
        address=answer.host.name,
    )
    return replace(answer, snapshot=None, problems=(diagnostic,))
