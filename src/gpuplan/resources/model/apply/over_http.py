"""Inferences over HTTP."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from gpuplan.resources.model.apply.asking import CONNECTING, Registered, Unanswered, inputs_of, outputs_of, sequence
from gpuplan.resources.model.server import leave_thread
from gpuplan.resources.model.smoke.answer import Answer, Output
from gpuplan.resources.model.smoke.request import Request

if TYPE_CHECKING:
    from tritonclient.http import InferResult


class OverHttp:
    """A connection to `address` (host:port); see Asker."""

    def __init__(self, address: str, timeout: float) -> None:
        from tritonclient.http import InferenceServerClient

        self._timeout = timeout
        self._client = InferenceServerClient(address, connection_timeout=CONNECTING, network_timeout=timeout)
        self._warm()

    def ask(self, request: Request, version: int, region: Registered | None) -> tuple[Answer, ...]:
        """See Asker.ask."""
        from geventhttpclient.response import HTTPParseError
        from tritonclient.http import InferInput, InferRequestedOutput
        from tritonclient.utils import InferenceServerException

        try:
            result = self._client.infer(
                request.model,
                inputs_of(request, InferInput, region),
                str(version),
                outputs_of(request, InferRequestedOutput, region) or None,
                **sequence(request),
            )
            return (_answer(result, region),)
        except InferenceServerException as fault:
            raise Unanswered(str(fault.message())) from None
        except TimeoutError:
            raise Unanswered(f"no answer within {self._timeout:g} s", late=True) from None
        except (OSError, HTTPParseError, ValueError) as fault:
            raise Unanswered(f"the connection broke: {fault or type(fault).__name__}") from None

    def close(self) -> None:
        """See Asker.close; it ends in the thread that it was made in."""
        self._client.close()
        leave_thread()

    def _warm(self) -> None:
        """Connect, so that no inference is measured with it; where that fails, the first inference tells."""
        from geventhttpclient.response import HTTPParseError
        from tritonclient.utils import InferenceServerException

        with suppress(InferenceServerException, OSError, HTTPParseError):
            self._client.is_server_live()


def _answer(result: InferResult, region: Registered | None) -> Answer:
    placed = region.layout.outputs if region else {}
    found: dict[str, Output] = {}
    for each in result.get_response().get("outputs", ()):
        name = str(each["name"])
        array = None if name in placed else result.as_numpy(name)
        found[name] = Output(str(each["datatype"]), tuple(map(int, each["shape"])), array)
    return found
