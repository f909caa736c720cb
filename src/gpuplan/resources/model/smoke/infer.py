"""Sends inference requests to a Triton over HTTP or gRPC; decoupled models are read over a gRPC stream."""

from __future__ import annotations

import queue
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuplan.resources.model.smoke.request import InferRequest, SharedMemoryLayout
from gpuplan.resources.model.smoke.response import InferResponse, OutputTensor
from gpuplan.triton.client import release_thread
from gpuplan.types.value import JsonObject, mapping, mappings, texts

if TYPE_CHECKING:
    import docker
    from tritonclient import grpc, http
    from tritonclient.utils import InferenceServerException

    StreamItem = tuple[grpc.InferResult | None, InferenceServerException | None]

CONNECT_TIMEOUT = 10.0
"""Seconds, over a forwarded port."""
MAX_RESPONSES = 10_000
"""Responses of a decoupled model to one request."""
_GRPC_PORT = re.compile(r"--grpc-port[= ](\d+)")


class InferenceFailed(Exception):
    """A request without a response; the text is the server's error, or why there is none."""

    def __init__(self, reason: str, *, timed_out: bool = False) -> None:
        self.timed_out = timed_out
        """No response in time: another request would only wait as long."""
        super().__init__(" ".join(reason.split()).rstrip(" .;") or "the server gave no reason")


@dataclass(frozen=True)
class RegisteredRegion:
    """A shared memory region, and the name by which the server knows it."""

    name: str
    layout: SharedMemoryLayout


class HttpInference:
    """One connection over HTTP to `address` (host:port); not shared between threads."""

    def __init__(self, address: str, timeout: float) -> None:
        from geventhttpclient.response import HTTPParseError
        from tritonclient.http import InferenceServerClient
        from tritonclient.utils import InferenceServerException

        self._timeout = timeout
        self._client = InferenceServerClient(address, connection_timeout=CONNECT_TIMEOUT, network_timeout=timeout)
        with suppress(InferenceServerException, OSError, HTTPParseError):  # connect, so that latencies exclude it
            self._client.is_server_live()

    def infer(self, request: InferRequest, version: int, region: RegisteredRegion | None) -> tuple[InferResponse, ...]:
        """See InferenceConnection.infer."""
        from geventhttpclient.response import HTTPParseError
        from tritonclient.http import InferInput, InferRequestedOutput
        from tritonclient.utils import InferenceServerException

        try:
            result = self._client.infer(
                request.model,
                _inputs(request, InferInput, region),
                str(version),
                _outputs(request, InferRequestedOutput, region) or None,
                **_sequence(request),
            )
        except InferenceServerException as error:
            raise InferenceFailed(str(error.message())) from None
        except TimeoutError:
            raise InferenceFailed(f"no response within {self._timeout:g} s", timed_out=True) from None
        except (OSError, HTTPParseError, ValueError) as error:
            raise InferenceFailed(f"connection failed: {error or type(error).__name__}") from None
        outputs: dict[str, OutputTensor] = {}
        for output in result.get_response().get("outputs", ()):
            name = str(output["name"])
            array = None if _in_region(name, region) else result.as_numpy(name)
            outputs[name] = OutputTensor(str(output["datatype"]), tuple(map(int, output["shape"])), array)
        return (outputs,)

    def close(self) -> None:
        """Close the connection, in the thread that opened it."""
        self._client.close()
        release_thread()


class GrpcInference:
    """One connection over gRPC to `address` (host:port). `gpuplan[grpc]` must be installed."""

    def __init__(self, address: str, timeout: float) -> None:
        from tritonclient.grpc import InferenceServerClient
        from tritonclient.utils import InferenceServerException

        self._timeout = timeout
        self._client = InferenceServerClient(address)
        with suppress(InferenceServerException):  # connect, so that latencies exclude it
            self._client.is_server_live(client_timeout=min(timeout, CONNECT_TIMEOUT))

    def infer(self, request: InferRequest, version: int, region: RegisteredRegion | None) -> tuple[InferResponse, ...]:
        """See InferenceConnection.infer."""
        from tritonclient.grpc import InferInput, InferRequestedOutput
        from tritonclient.utils import InferenceServerException

        try:
            if request.signature.decoupled:
                return self._stream(request, version)
            result = self._client.infer(
                request.model,
                _inputs(request, InferInput, region),
                str(version),
                _outputs(request, InferRequestedOutput, region) or None,
                client_timeout=self._timeout,
                **_sequence(request),
            )
        except InferenceServerException as error:
            raise self._failed(error) from None
        return (_grpc_response(result, region),)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _stream(self, request: InferRequest, version: int) -> tuple[InferResponse, ...]:
        from tritonclient.grpc import InferInput

        items: queue.SimpleQueue[StreamItem] = queue.SimpleQueue()
        self._client.start_stream(lambda result, error: items.put((result, error)))
        complete = False
        try:
            self._client.async_stream_infer(
                request.model,
                _inputs(request, InferInput, None),
                str(version),
                enable_empty_final_response=True,
                **_sequence(request),
            )
            responses = self._read_stream(items)
            complete = True
        finally:
            self._client.stop_stream(cancel_requests=not complete)
        return responses

    def _read_stream(self, items: queue.SimpleQueue[StreamItem]) -> tuple[InferResponse, ...]:
        """All responses up to the final one."""
        deadline = time.monotonic() + self._timeout
        responses: list[InferResponse] = []
        while len(responses) < MAX_RESPONSES:
            try:
                result, error = items.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                reason = f"no final response within {self._timeout:g} s, after {len(responses)} responses"
                raise InferenceFailed(reason, timed_out=True) from None
            if result is None:
                raise self._failed(error)
            raw = result.get_response()
            if raw.outputs:
                responses.append(_grpc_response(result, None))
            if raw.parameters["triton_final_response"].bool_param:
                return tuple(responses)
        raise InferenceFailed(f"no final response after {MAX_RESPONSES} responses", timed_out=True)

    def _failed(self, error: InferenceServerException | None) -> InferenceFailed:
        if error is None:
            return InferenceFailed("")
        status, message = str(error.status() or ""), str(error.message())
        if status.endswith("DEADLINE_EXCEEDED"):
            return InferenceFailed(f"no response within {self._timeout:g} s", timed_out=True)
        return InferenceFailed(f"connection failed: {message}" if status.endswith("UNAVAILABLE") else message)


InferenceConnection = HttpInference | GrpcInference


def grpc_address(engine: docker.APIClient, container: str) -> str | None:
    """`host:port` of a container's gRPC as the node reaches it: the published port, else the container's own address.

    None if there is neither.
    """
    raw: JsonObject = mapping(engine.inspect_container(container))
    command = " ".join((str(raw.get("Path") or ""), *texts(raw.get("Args"))))
    stated = _GRPC_PORT.search(command)
    port = stated[1] if stated else "8001"
    if mapping(raw.get("HostConfig")).get("NetworkMode") == "host":
        return f"127.0.0.1:{port}"
    network = mapping(raw.get("NetworkSettings"))
    for published in mappings(mapping(network.get("Ports")).get(f"{port}/tcp")):
        host = str(published.get("HostIp") or "")
        host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - read, not bound
        return f"{host}:{published['HostPort']}"
    addresses = (mapping(attached).get("IPAddress") for attached in mapping(network.get("Networks")).values())
    return next((f"{address}:{port}" for address in addresses if address), None)


def _inputs(
    request: InferRequest, tensor_type: type[http.InferInput], region: RegisteredRegion | None
) -> list[http.InferInput]:
    """The inputs in the client library's class for the protocol."""
    tensors: list[http.InferInput] = []
    for given in request.inputs:
        tensor = tensor_type(given.tensor.name, list(given.shape), given.tensor.datatype.name)
        if region is None:
            tensor.set_data_from_numpy(given.array)
        else:
            slot = region.layout.inputs[given.tensor.name]
            tensor.set_shared_memory(region.name, slot.size, slot.offset)
        tensors.append(tensor)
    return tensors


def _outputs(
    request: InferRequest, output_type: type[http.InferRequestedOutput], region: RegisteredRegion | None
) -> list[http.InferRequestedOutput]:
    """All outputs that the config declares."""
    outputs: list[http.InferRequestedOutput] = []
    for name in request.signature.outputs:
        output = output_type(name)
        if region is not None and name in region.layout.outputs:
            slot = region.layout.outputs[name]
            output.set_shared_memory(region.name, slot.size, slot.offset)
        outputs.append(output)
    return outputs


def _sequence(request: InferRequest) -> Mapping[str, int | str | bool]:
    """A sequence of this one request with a random identifier; empty if the model has no sequences."""
    match request.signature.sequence:
        case "":
            return {}
        case "text":
            identifier: int | str = f"gpuplan-{secrets.token_hex(8)}"
        case _:
            identifier = secrets.randbelow(2**31 - 1) + 1
    return {"sequence_id": identifier, "sequence_start": True, "sequence_end": True}


def _grpc_response(result: grpc.InferResult, region: RegisteredRegion | None) -> InferResponse:
    return {
        str(output.name): OutputTensor(
            str(output.datatype),
            tuple(output.shape),
            None if _in_region(output.name, region) else result.as_numpy(output.name),
        )
        for output in result.get_response().outputs
    }


def _in_region(output: str, region: RegisteredRegion | None) -> bool:
    return region is not None and output in region.layout.outputs
