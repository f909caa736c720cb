"""Inferences over gRPC; of a decoupled model over a stream, until its last response."""

from __future__ import annotations

import queue
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from gpuplan.resources.model.apply.asking import CONNECTING, Registered, Unanswered, inputs_of, outputs_of, sequence
from gpuplan.resources.model.smoke.answer import Answer, Output
from gpuplan.resources.model.smoke.request import Request

if TYPE_CHECKING:
    from tritonclient.grpc import InferResult
    from tritonclient.utils import InferenceServerException

MOST = 10_000
"""Responses of a decoupled model to one request that are waited for."""


class OverGrpc:
    """A connection to `address` (host:port); see Asker. `gpuplan[grpc]` must be installed."""

    def __init__(self, address: str, timeout: float) -> None:
        from tritonclient.grpc import InferenceServerClient
        from tritonclient.utils import InferenceServerException

        self._timeout = timeout
        self._client = InferenceServerClient(address)
        with suppress(InferenceServerException):  # connects, so that no inference is measured with it
            self._client.is_server_live(client_timeout=min(timeout, CONNECTING))

    def ask(self, request: Request, version: int, region: Registered | None) -> tuple[Answer, ...]:
        """See Asker.ask."""
        from tritonclient.utils import InferenceServerException

        try:
            if request.form.decoupled:
                return self._stream(request, version)
            return (_answer(self._one(request, version, region), region),)
        except InferenceServerException as fault:
            raise _unanswered(fault, self._timeout) from None

    def close(self) -> None:
        """See Asker.close."""
        self._client.close()

    def _one(self, request: Request, version: int, region: Registered | None) -> InferResult:
        from tritonclient.grpc import InferInput, InferRequestedOutput

        return self._client.infer(
            request.model,
            inputs_of(request, InferInput, region),
            str(version),
            outputs_of(request, InferRequestedOutput, region) or None,
            client_timeout=self._timeout,
            **sequence(request),
        )

    def _stream(self, request: Request, version: int) -> tuple[Answer, ...]:
        from tritonclient.grpc import InferInput

        said: queue.SimpleQueue[tuple[InferResult | None, InferenceServerException | None]] = queue.SimpleQueue()
        self._client.start_stream(lambda result, error: said.put((result, error)))
        ended = False
        try:
            self._client.async_stream_infer(
                request.model,
                inputs_of(request, InferInput, None),
                str(version),
                enable_empty_final_response=True,
                **sequence(request),
            )
            answers = self._until_the_last(said)
            ended = True
        finally:
            self._client.stop_stream(cancel_requests=not ended)
        return answers

    def _until_the_last(
        self, said: queue.SimpleQueue[tuple[InferResult | None, InferenceServerException | None]]
    ) -> tuple[Answer, ...]:
        deadline = time.monotonic() + self._timeout
        answers: list[Answer] = []
        while len(answers) < MOST:
            try:
                result, fault = said.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                words = f"no last response within {self._timeout:g} s, after {len(answers)} others"
                raise Unanswered(words, late=True) from None
            if result is None:
                raise _unanswered(fault, self._timeout)
            response = result.get_response()
            if response.outputs:
                answers.append(_answer(result, None))
            if response.parameters["triton_final_response"].bool_param:
                return tuple(answers)
        raise Unanswered(f"it sent {MOST} responses and did not come to an end", late=True)


def _unanswered(fault: InferenceServerException | None, timeout: float) -> Unanswered:
    if fault is None:
        return Unanswered("it gave no reason")
    status = str(fault.status() or "")
    if status.endswith("DEADLINE_EXCEEDED"):
        return Unanswered(f"no answer within {timeout:g} s", late=True)
    words = str(fault.message())
    return Unanswered(f"the connection broke: {words}" if status.endswith("UNAVAILABLE") else words)


def _answer(result: InferResult, region: Registered | None) -> Answer:
    placed = region.layout.outputs if region else {}
    return {
        str(each.name): Output(
            str(each.datatype), tuple(each.shape), None if each.name in placed else result.as_numpy(each.name)
        )
        for each in result.get_response().outputs
    }
