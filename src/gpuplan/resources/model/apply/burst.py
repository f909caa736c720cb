"""Many inferences of one model, several in flight: the time of each that was answered, and what the others lacked."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

from gpuplan.resources.model.apply.asking import Asker, Registered, Unanswered
from gpuplan.resources.model.smoke.answer import Answer
from gpuplan.resources.model.smoke.request import Request

Check = Callable[[Answer], tuple[str, ...]]
"""What is wrong with an answer."""


@dataclass(frozen=True)
class Volley:
    """What is sent: `count` times the same request, `concurrency` of them in flight."""

    request: Request
    version: int
    region: Registered | None = None
    count: int = 1
    concurrency: int = 1


@dataclass
class Burst:
    """What came of it."""

    sent: int = 0
    latencies: list[float] = field(default_factory=list)
    """Seconds from the request to its checked answer, of those that answered well, in no order."""
    seconds: float = 0.0
    """From the first request to the last answer."""
    gave_up: bool = False
    """One came too late, so that no further one was sent."""
    faults: Counter[str] = field(default_factory=Counter)
    """Words → how many requests ended so."""
    last: Answer | None = None
    """An answer that came, for what can only be looked at afterwards."""


def fire(volley: Volley, connect: Callable[[], Asker], check: Check) -> Burst:
    """Send them all, and wait until all are answered. After one that came too late no further one is sent."""
    found, lock = Burst(), threading.Lock()

    def work() -> None:
        with closing(connect()) as asker:
            while _next(found, volley.count, lock):
                _one(found, lock, asker, volley, check)

    workers = min(volley.concurrency, volley.count)
    started = time.monotonic()
    with ThreadPoolExecutor(workers, thread_name_prefix="smoke") as pool:
        running = [pool.submit(work) for _ in range(workers)]
        for each in running:
            each.result()
    found.seconds = time.monotonic() - started
    return found


def told(faults: Mapping[str, int], sent: int) -> str:
    """What went wrong, most frequent first; with numbers where there was more than one request."""
    ordered = sorted(faults.items(), key=lambda each: -each[1])
    if sent == 1:
        return "; ".join(words for words, _ in ordered)
    return "; ".join(f"{words} ({number} of {sent} requests)" for words, number in ordered)


def _next(found: Burst, count: int, lock: threading.Lock) -> bool:
    with lock:
        if found.gave_up or found.sent >= count:
            return False
        found.sent += 1
        return True


def _one(found: Burst, lock: threading.Lock, asker: Asker, volley: Volley, check: Check) -> None:
    started = time.monotonic()
    try:
        answers = asker.ask(volley.request, volley.version, volley.region)
    except Unanswered as fault:
        with lock:
            found.faults[str(fault)] += 1
            found.gave_up |= fault.late
        return
    seconds = time.monotonic() - started
    wrong = tuple(dict.fromkeys(words for answer in answers for words in check(answer)))
    with lock:
        found.last = answers[-1] if answers else found.last
        if wrong:
            found.faults["; ".join(wrong)] += 1
        else:
            found.latencies.append(seconds)
