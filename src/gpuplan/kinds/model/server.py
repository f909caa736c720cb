"""One model server over a forwarded port: its index, a load that may take minutes or never answer, an unload."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from gpuplan.kinds.model.read import Server, content_of, read_index
from gpuplan.model.diagnostic import Diagnostic, Problem
from gpuplan.model.value import JsonObject

if TYPE_CHECKING:
    from tritonclient.http import InferenceServerClient

Answer = TypeVar("Answer")
CONNECTING = 10.0
"""Seconds to connect, over a forwarded port."""
ANSWERING = 30.0
"""Seconds for an answer that should come at once, and to spare for one that may take long."""
POLL = 0.5
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
        self._client = self._connect(ANSWERING)

    def __enter__(self) -> TritonServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def look(self, model: str) -> Server:
        """The index, and the content that the server has of one model."""
        index = read_index(self._ask(self._client.get_model_repository_index))
        found = Server(self._address, index, {}, {})
        if not found.ready(model):
            return found
        config = self._ask(lambda: self._client.get_model_config(model))
        return Server(self._address, index, {model: content_of(config)}, {})

    def config(self, model: str) -> JsonObject:
        """The config of a model that is loaded, with all that the server filled in."""
        found: JsonObject = self._ask(lambda: self._client.get_model_config(model))
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
        answer = self._refusal(lambda: self._client.unload_model(model, unload_dependents=dependents))
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

    def _ask(self, call: Callable[[], Answer]) -> Answer:
        from tritonclient.utils import InferenceServerException

        try:
            return self._talk(call)
        except InferenceServerException as fault:
            raise Problem(self._silent(str(fault.message()))) from fault

    def _talk(self, call: Callable[[], Answer]) -> Answer:
        from geventhttpclient.response import HTTPParseError

        try:
            return call()
        except (OSError, HTTPParseError) as fault:
            raise Problem(self._silent(str(fault) or type(fault).__name__)) from fault

    def _silent(self, why: str) -> Diagnostic:
        return Diagnostic(
            "A model server does not answer",
            f"The server in {self._container} cannot be talked to: {why}.",
            f"Look at its log: docker logs {self._container}",
        )
