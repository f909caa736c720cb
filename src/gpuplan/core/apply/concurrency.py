"""A crew: the steps of a node that run side by side, a few at a time, in threads of their own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Generic, Self, TypeVar

ABREAST = 4
"""Steps at once. A model server loads as many at a time (tritonserver --model-load-thread-count), and each load holds
one of its eight HTTP threads, of which half are left for inference (--http-thread-count)."""

Done = TypeVar("Done")


class ConcurrentSteps(Generic[Done]):
    """Work under way, by name; use it as a context, which waits for what still runs."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(ABREAST, thread_name_prefix=name)
        self._running: dict[Future[Done], tuple[str, int]] = {}
        self._crew = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()

    @property
    def idle(self) -> bool:
        """True where nothing runs."""
        return not self._running

    def takes(self, crew: str, abreast: int = 0) -> bool:
        """True where a step of that crew may begin beside what runs; it and each of those bear so many at once."""
        most = min(each or ABREAST for each in (ABREAST, abreast, *(bears for _, bears in self._running.values())))
        return bool(crew) and len(self._running) < most and (self.idle or crew == self._crew)

    def begin(self, crew: str, name: str, work: Callable[[], Done], abreast: int = 0) -> None:
        """Begin a piece of work that the crew `takes`."""
        self._crew = crew
        self._running[self._pool.submit(work)] = (name, abreast)

    def ended(self) -> tuple[tuple[str, Done], ...]:
        """Wait until something ends; what has ended, with what came of it. Nothing at once where nothing runs."""
        if self.idle:
            return ()
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        return tuple((self._running.pop(each)[0], each.result()) for each in done)
