"""One model server over a forwarded port: its index, a load that may take minutes or never answer, an unload."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from gpuplan.resources.model.read import Server, content_of, read_index
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.value import JsonObject

if TYPE_CHECKING:
    from tritonclient.http import InferenceServerClient

Answer = TypeVar("Answer")
CONNECTING = 10.0
"""Seconds to connect, over a forwarded port."""
ANSWERING = 30.0
"""Seconds to spare for an answer that may take long."""
ASKING = 3.0
"""Seconds for an answer that should come at once."""
ATTEMPTS = 10
"""So often a question is asked, each time over a new connection."""
POLL = 0.1
"""Seconds between two looks at the index."""


def leave_thread() -> None:
    """Give back what the HTTP client keeps for each thread that uses it, two open files among it."""
    import gevent

    gevent.get_hub().destroy()


class TritonServer:
    """A model server at `address` (host:port). Every method raises Problem where the server cannot be talked to."""

    def __init__(self, address: str, container: str) -> None:
        self._address = address
        self._container = container
        self._client = self._connect(ASKING)

    def __enter__(self) -> TritonServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def look(self, model: str) -> Server:
        """The index, and the content that the server has of one model."""
        index = read_index(self._ask(lambda client: client.get_model_repository_index()))
        found = Server(self._address, index, {}, {})
        if not found.ready(model):
            return found
        config = self._ask(lambda client: client.get_model_config(model))
        return Server(self._address, index, {model: content_of(config)}, {})

    def config(self, model: str) -> JsonObject:
        """The config of a model that is loaded, with all that the server filled in."""
        found: JsonObject = self._ask(lambda client: client.get_model_config(model))
        return found

    def load(self, model: str, seconds: float, meanwhile: Callable[[], None], config: str | None = None) -> str:
        """Ask for a load and wait for the answer, calling `meanwhile` now and then; the server's refusal, or nothing.

        `config` is the text of a whole config that takes the place of the repository's.

        An answer of success says little: look at the index after it.

        Raises:
            TimeoutError: no answer within `seconds`; the server goes on trying.
        """
        import gevent

        client = self._connect(seconds + ANSWERING)
        job = gevent.spawn(self._refusal, lambda: client.load_model(model, config=config))
        deadline = time.monotonic() + seconds
        try:
            while not job.ready():
                if time.monotonic() >= deadline:
                    raise TimeoutError
                job.join(timeout=POLL)
                if not job.ready():
                    meanwhile()
        finally:
            job.kill()
            client.close()
        answer: str | Problem = job.value
        if isinstance(answer, Problem):
            raise answer
        return answer

    def unload(self, model: str, *, dependents: bool = False) -> str:
        """Ask for an unload, which goes on after the answer; the server's refusal, or nothing."""
        client = self._connect(ANSWERING)
        try:
            answer = self._refusal(lambda: client.unload_model(model, unload_dependents=dependents))
        finally:
            client.close()
        if isinstance(answer, Problem):
            raise answer
        return answer

    def pause(self) -> None:
        """Wait before the next look."""
        import gevent

        gevent.sleep(POLL)

    def _connect(self, patience: float) -> InferenceServerClient:
        from tritonclient.http import InferenceServerClient

        return InferenceServerClient(self._address, connection_timeout=CONNECTING, network_timeout=patience)

    def _refusal(self, call: Callable[[], object]) -> str | Problem:
        """What the server says against it; returned, not raised, so that a greenlet prints no traceback."""
        from tritonclient.utils import InferenceServerException

        try:
            self._talk(call)
        except InferenceServerException as fault:
            return str(fault.message() or "it gave no reason").strip()
        except Problem as problem:
            return problem
        return ""

    def _ask(self, call: Callable[[InferenceServerClient], Answer]) -> Answer:
        """What only asks is asked again over a new connection.

        Triton's HTTP threads have connections of their own, and one that loads a model answers on none of them.
        """
        from tritonclient.utils import InferenceServerException

        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._talk(lambda: call(self._client), give_up=attempt == ATTEMPTS)
            except InferenceServerException as fault:
                raise Problem(self._silent(str(fault.message()))) from fault
            except TimeoutError:
                self._client.close()
                self._client = self._connect(ASKING)
        raise AssertionError("the last attempt gives up")

    def _talk(self, call: Callable[[], Answer], *, give_up: bool = True) -> Answer:
        """Raises TimeoutError where there is no answer in time and it is too early to `give_up`."""
        from geventhttpclient.response import HTTPParseError

        try:
            return call()
        except (OSError, HTTPParseError) as fault:
            if isinstance(fault, TimeoutError) and not give_up:
                raise
            raise Problem(self._silent(str(fault) or type(fault).__name__)) from fault

    def _silent(self, why: str) -> Diagnostic:
        return Diagnostic(
            "A model server does not answer",
            f"The server in {self._container} cannot be talked to: {why}.",
            f"Look at its log: docker logs {self._container}",
        )
