"""A Triton server over HTTP: its index, loads that may take minutes or never answer, unloads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.value import Json, JsonObject

if TYPE_CHECKING:
    from tritonclient.http import InferenceServerClient

Answer = TypeVar("Answer")
CONNECT_TIMEOUT = 10.0
"""Seconds, over a forwarded port."""
READ_TIMEOUT = 3.0
"""Seconds for an answer that needs no work."""
ACTION_TIMEOUT = 30.0
"""Seconds for an unload's answer; added to the timeout of a load."""
READ_ATTEMPTS = 10
"""How often a read is tried, each time over a new connection."""
POLL = 0.1
"""Seconds between two looks at the index."""


@contextmanager
def forwarded(forward: Callable[[int, str], AbstractContextManager[str]], address: str) -> Iterator[str]:
    """A local `host:port` that reaches an `address` (host:port) as the node reaches it."""
    host, _, port = address.rpartition(":")
    with forward(int(port), host.strip("[]")) as local:
        yield local


def release_thread() -> None:
    """Free what the HTTP client keeps for each thread that uses it, among it two open files."""
    import gevent

    gevent.get_hub().destroy()


class TritonClient:
    """The Triton server at `address` (host:port). Every method raises Problem if the server does not answer."""

    def __init__(self, address: str, container: str) -> None:
        self.address = address
        self._container = container
        self._client = self._connect(READ_TIMEOUT)

    def __enter__(self) -> TritonClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def index(self) -> Sequence[Json]:
        """The repository index."""
        index: Sequence[Json] = self._read(lambda client: client.get_model_repository_index())
        return index

    def config(self, model: str) -> JsonObject:
        """The config of a loaded model, with all that the server completed."""
        config: JsonObject = self._read(lambda client: client.get_model_config(model))
        return config

    def load(self, model: str, seconds: float, progress: Callable[[], None], config: str | None = None) -> str:
        """Load a model and wait for the answer, calling `progress` every 0.1 s; the server's error, or nothing.

        `config` is the text of a whole config that replaces that of the repository. An answer without an error proves
        nothing: look at the index.

        Raises:
            TimeoutError: no answer within `seconds`; the server may still be loading.
        """
        import gevent

        client = self._connect(seconds + ACTION_TIMEOUT)
        job = gevent.spawn(self._error_of, lambda: client.load_model(model, config=config))
        deadline = time.monotonic() + seconds
        try:
            while not job.ready():
                if time.monotonic() >= deadline:
                    raise TimeoutError
                job.join(timeout=POLL)
                if not job.ready():
                    progress()
        finally:
            job.kill()
            client.close()
        return _raised(job.value)

    def unload(self, model: str, *, dependents: bool = False) -> str:
        """Start to unload a model, with `dependents` also the parts of an ensemble; the server's error, or nothing."""
        client = self._connect(ACTION_TIMEOUT)
        try:
            return _raised(self._error_of(lambda: client.unload_model(model, unload_dependents=dependents)))
        finally:
            client.close()

    def pause(self) -> None:
        """Wait until the next look at the index."""
        import gevent

        gevent.sleep(POLL)

    def _connect(self, timeout: float) -> InferenceServerClient:
        from tritonclient.http import InferenceServerClient

        return InferenceServerClient(self.address, connection_timeout=CONNECT_TIMEOUT, network_timeout=timeout)

    def _error_of(self, call: Callable[[], object]) -> str | Problem:
        """The server's error, or nothing; a Problem is returned, since gevent prints what its greenlets raise."""
        from tritonclient.utils import InferenceServerException

        try:
            self._talk(call)
        except InferenceServerException as error:
            return str(error.message() or "the server gave no reason").strip()
        except Problem as problem:
            return problem
        return ""

    def _read(self, call: Callable[[InferenceServerClient], Answer]) -> Answer:
        """Try a read again over new connections.

        Each of Triton's HTTP threads has connections of its own, and one that loads a model answers on none of them.
        """
        from tritonclient.utils import InferenceServerException

        for attempt in range(1, READ_ATTEMPTS + 1):
            try:
                return self._talk(lambda: call(self._client), last=attempt == READ_ATTEMPTS)
            except InferenceServerException as error:
                raise Problem(self._unreachable(str(error.message()))) from error
            except TimeoutError:
                self._client.close()
                self._client = self._connect(READ_TIMEOUT)
        raise AssertionError("the last attempt raises Problem")

    def _talk(self, call: Callable[[], Answer], *, last: bool = True) -> Answer:
        """Raises TimeoutError if there is no answer in time and this is not the `last` attempt."""
        from geventhttpclient.response import HTTPParseError

        try:
            return call()
        except (OSError, HTTPParseError) as error:
            if isinstance(error, TimeoutError) and not last:
                raise
            raise Problem(self._unreachable(str(error) or type(error).__name__)) from error

    def _unreachable(self, why: str) -> Diagnostic:
        return Diagnostic(
            "The Triton server does not answer",
            f"The request to the server in {self._container} failed: {why}.",
            f"Check its log: docker logs {self._container}",
        )


def _raised(answer: str | Problem) -> str:
    if isinstance(answer, Problem):
        raise answer
    return answer
