"""Idle: follows what an engine does over minutes or hours, and gives it up only when it has fallen silent.

The SDK itself would wait for ever, already for the first word of an answer.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

from gpuplan.resources.kind import ApplyContext
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem

PULL = 120.0
"""Seconds without a word from the engine after which a pull counts as hung."""
LOAD = 300.0
"""Seconds in which the engine takes nothing of an archive and says nothing of it, after which a load counts as hung."""

Event = Mapping[str, object]
Sign = Callable[[str], None]
"""Tells that work goes on, with a word of progress or without."""


def follow_engine(
    begin: Callable[[Sign], Iterable[Event]], seconds: float, doing: str, address: Address, context: ApplyContext
) -> Iterator[Event]:
    """What `begin` gives, begun and read in a thread of its own; what it signs meanwhile is said.

    Raises:
        Problem: for so many seconds there was neither an event nor a sign.
    """
    heard: queue.Queue[Event | str | BaseException | None] = queue.Queue()

    def listen() -> None:
        try:
            for event in begin(heard.put):
                heard.put(event)
            heard.put(None)
        except BaseException as fault:  # noqa: BLE001 - raised again in the thread that waits
            heard.put(fault)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        try:
            found = heard.get(timeout=seconds)
        except queue.Empty:
            raise Problem(_silent(doing, seconds, address)) from None
        if found is None:
            return
        if isinstance(found, BaseException):
            raise found
        if not isinstance(found, str):
            yield found
        elif found:
            context.say(found)


def _silent(doing: str, seconds: float, address: Address) -> Diagnostic:
    detail = f"{doing}: the engine has said nothing for {seconds:g} s."
    if doing.startswith("pulling"):
        return Diagnostic(
            "A pull hangs", detail, "Check from the node that the registry answers.", address=str(address)
        )
    fix = "Look at the engine there (journalctl -u docker) and at its disk."
    return Diagnostic("A load hangs", detail, fix, address=str(address))
