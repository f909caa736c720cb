"""Runs a smoke test: asks each version of a loaded model, once or under load, and checks every response."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.model.smoke.infer import (
    CONNECT_TIMEOUT,
    GrpcInference,
    HttpInference,
    InferenceConnection,
    InferenceFailed,
    RegisteredRegion,
    grpc_address,
)
from gpuplan.resources.model.smoke.request import (
    InferRequest,
    SharedMemoryLayout,
    build_request,
    layout_of,
    with_outputs,
)
from gpuplan.resources.model.smoke.response import InferResponse, response_errors
from gpuplan.resources.model.smoke.shared_memory import ContainerShell, Region, cuda_region, system_region
from gpuplan.resources.model.smoke.spec import INSTALL_GRPC, SmokeSpec, has_grpc, read_limited
from gpuplan.resources.model.smoke.tensors import ReadFile, format_shape, signature_of
from gpuplan.triton.client import forwarded
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.report import SmokeResult

if TYPE_CHECKING:
    from tritonclient.http import InferenceServerClient


@dataclass(frozen=True)
class SmokeTarget:
    """The server that is asked."""

    context: ApplyContext
    container: str
    """Id of its container."""
    name: str
    """Name of its container."""
    address: str
    """`host:port` of its HTTP, as the node reaches it."""


@dataclass(frozen=True)
class RequestLoad:
    """How many requests each version gets, and how many are in flight."""

    requests: int = 1
    concurrency: int = 1


ONCE = RequestLoad()


def run_smoke(
    target: SmokeTarget, address: Address, versions: Sequence[int], spec: SmokeSpec, load: RequestLoad
) -> tuple[SmokeResult, ...]:
    """The result of each version; its diagnostics say what was wrong.

    Raises:
        Problem: no request could be sent: it does not fit the model, a file is missing, gRPC is not installed, the
            server does not answer.
    """
    from tritonclient.http import InferenceServerClient

    model = address.name.partition("/")[2]
    read = partial(_read_source, target.context)
    with (
        forwarded(target.context.forward, target.address) as http,
        InferenceServerClient(http, connection_timeout=CONNECT_TIMEOUT, network_timeout=spec.timeout) as client,
    ):
        request = _request(client, model, spec, read, address)
        protocol = spec.protocol or ("grpc" if request.signature.decoupled else "http")
        with _connector(target, protocol, http, spec.timeout, address) as connect:
            test = _SmokeTest(target, address, spec, load, request, client, protocol, connect, read)
            return tuple(test.run(version) for version in versions if spec.version in (None, version))


def smoke_after_load(target: SmokeTarget, address: Address, versions: Sequence[int], spec: SmokeSpec) -> None:
    """Ask each version once and report its latency.

    Raises:
        Problem: a version does not answer as it should, or cannot be asked.
    """
    results = run_smoke(target, address, versions, spec, ONCE)
    if failed := [issue for result in results for issue in result.diagnostics]:
        raise Problem(failed)
    for result in results:
        model = address.name.partition("/")[2]
        target.context.say(f"{model} version {result.version} answered in {1000 * result.latencies[0]:.1f} ms")


def failed_smoke(address: Address, problem: Problem) -> SmokeResult:
    """The result of a model to which no request could be sent."""
    issues = tuple(replace(issue, address=issue.address or str(address)) for issue in problem.diagnostics)
    return SmokeResult(address, None, diagnostics=issues)


@dataclass(frozen=True)
class RequestBurst:
    """The same request, sent `count` times with `concurrency` in flight."""

    request: InferRequest
    version: int
    region: RegisteredRegion | None = None
    count: int = 1
    concurrency: int = 1


@dataclass
class BurstResult:
    """The outcome of a burst."""

    sent: int = 0
    latencies: list[float] = field(default_factory=list)
    """Seconds from request to checked response, of the good ones, in no order."""
    seconds: float = 0.0
    """From the first request to the last response."""
    stopped: bool = False
    """A request timed out, so no further ones were sent."""
    errors: Counter[str] = field(default_factory=Counter)
    """How many requests ended with each error."""
    last: InferResponse | None = None
    """One response, to which outputs in shared memory are added afterwards."""


def send_burst(
    burst: RequestBurst, connect: Callable[[], InferenceConnection], check: Callable[[InferResponse], Sequence[str]]
) -> BurstResult:
    """Send all requests and wait for their responses; `check` lists what is wrong with one.

    After a timeout no further requests are sent.
    """
    result, lock = BurstResult(), threading.Lock()

    def take() -> bool:
        with lock:
            result.sent += (more := not result.stopped and result.sent < burst.count)
        return more

    def send(connection: InferenceConnection) -> None:
        started = time.monotonic()
        try:
            responses = connection.infer(burst.request, burst.version, burst.region)
        except InferenceFailed as error:
            with lock:
                result.errors[str(error)] += 1
                result.stopped |= error.timed_out
            return
        seconds = time.monotonic() - started
        wrong = dict.fromkeys(error for response in responses for error in check(response))
        with lock:
            result.last = responses[-1] if responses else result.last
            if wrong:
                result.errors["; ".join(wrong)] += 1
            else:
                result.latencies.append(seconds)

    def work() -> None:
        with closing(connect()) as connection:
            while take():
                send(connection)

    workers = min(burst.concurrency, burst.count)
    started = time.monotonic()
    with ThreadPoolExecutor(workers, thread_name_prefix="smoke") as pool:
        for future in [pool.submit(work) for _ in range(workers)]:
            future.result()
    result.seconds = time.monotonic() - started
    return result


@dataclass(frozen=True)
class _SmokeTest:
    """The smoke test of one model on one server."""

    target: SmokeTarget
    address: Address
    spec: SmokeSpec
    load: RequestLoad
    request: InferRequest
    client: InferenceServerClient
    protocol: str
    connect: Callable[[], InferenceConnection]
    read: ReadFile

    def run(self, version: int) -> SmokeResult:
        """The result of one version."""
        if self.spec.shared_memory == "none":
            return self._result(version, self._send(version, None))
        layout = layout_of(self.request)
        with self._region(layout) as region:
            burst = self._send(version, RegisteredRegion(region.name, layout))
            if burst.last is not None and not burst.errors:
                self._check_region(burst, burst.last, layout, region)
            return self._result(version, burst)

    def _send(self, version: int, region: RegisteredRegion | None) -> BurstResult:
        burst = RequestBurst(self.request, version, region, self.load.requests, self.load.concurrency)
        return send_burst(burst, self.connect, self._check)

    def _check(self, response: InferResponse) -> Sequence[str]:
        request = self.request
        return tuple(response_errors(response, request.signature, request.batch, self.spec.outputs, self.read))

    def _check_region(
        self, burst: BurstResult, last: InferResponse, layout: SharedMemoryLayout, region: Region
    ) -> None:
        """Check the outputs in shared memory; all requests wrote to the same place, so the last one counts for all."""
        try:
            wrong = self._check(with_outputs(last, layout, self.request, region.read()))
        except ValueError as error:
            wrong = (f"an output in shared memory is not a valid tensor: {error}",)
        if wrong:
            burst.errors["; ".join(wrong)] += len(burst.latencies)
            burst.latencies.clear()

    @contextmanager
    def _region(self, layout: SharedMemoryLayout) -> Iterator[Region]:
        shell = ContainerShell(self.target.context.docker(), self.target.container, self.target.name)
        if self.spec.shared_memory == "system":
            with system_region(shell, layout.content, self.client) as region:
                yield region
            return
        rounds = -(-self.load.requests // self.load.concurrency)
        with cuda_region(shell, layout.content, self.spec.timeout * rounds, self.client) as cuda:
            yield cuda

    def _result(self, version: int, burst: BurstResult) -> SmokeResult:
        return SmokeResult(
            address=self.address,
            version=version,
            protocol=self.protocol,
            shared_memory=self.spec.shared_memory,
            requests=burst.sent,
            concurrency=min(self.load.concurrency, self.load.requests),
            latencies=tuple(sorted(burst.latencies)),
            seconds=burst.seconds,
            diagnostics=(self._failure(version, burst),) if burst.errors else (),
        )

    def _failure(self, version: int, burst: BurstResult) -> Diagnostic:
        model, server = self.request.model, self.target.name
        inputs = [f"{i.tensor.name} {i.tensor.datatype.name} {format_shape(i.shape)}" for i in self.request.inputs]
        over = "" if self.protocol == "http" else " over gRPC"
        sent = f"{', '.join(inputs) or 'no input'}{over}"
        return Diagnostic(
            "Smoke test failed",
            f"{model} version {version} on {server}, asked with {sent}: {_list_errors(burst.errors, burst.sent)}.",
            f"Check the server's log: docker logs {server}. If the model is right, correct its smoke section.",
            address=str(self.address),
        )


def _list_errors(errors: Mapping[str, int], sent: int) -> str:
    """The errors, most frequent first; with counts if there was more than one request."""
    ordered = sorted(errors.items(), key=lambda item: -item[1])
    if sent == 1:
        return "; ".join(error for error, _ in ordered)
    return "; ".join(f"{error} ({count} of {sent} requests)" for error, count in ordered)


def _request(
    client: InferenceServerClient, model: str, spec: SmokeSpec, read: ReadFile, address: Address
) -> InferRequest:
    from geventhttpclient.response import HTTPParseError
    from tritonclient.utils import InferenceServerException

    try:
        signature = signature_of(client.get_model_config(model))
    except (InferenceServerException, OSError, HTTPParseError) as error:
        reason = error.message() if isinstance(error, InferenceServerException) else str(error) or type(error).__name__
        detail = f"The server did not return the config of {model}: {reason}."
        fix = "Run gpuplan plan to see whether the model is loaded."
        raise Problem(Diagnostic("Cannot test the model", detail, fix, address=str(address))) from error
    request = build_request(model, spec, signature, read)
    if isinstance(request, InferRequest):
        return request
    raise Problem([issue.diagnostic(None, str(address)) for issue in request])


@contextmanager
def _connector(
    target: SmokeTarget, protocol: str, http: str, timeout: float, address: Address
) -> Iterator[Callable[[], InferenceConnection]]:
    """The function by which each worker connects."""
    if protocol == "http":
        yield partial(HttpInference, http, timeout)
        return
    if not has_grpc():
        detail = f"The smoke test of {address.name} uses gRPC, but its library is not installed on this machine."
        raise Problem(Diagnostic("gRPC is not installed", detail, INSTALL_GRPC, address=str(address)))
    server = grpc_address(target.context.docker(), target.container)
    if server is None:
        detail = f"The smoke test of {address.name} uses gRPC, but {target.name} publishes no gRPC port."
        fix = f"Publish it: containers.{target.name}.ports: {{ grpc: 8001 }}"
        raise Problem(Diagnostic("Cannot reach the gRPC port of the Triton server", detail, fix, address=str(address)))
    with forwarded(target.context.forward, server) as grpc:
        yield partial(GrpcInference, grpc, timeout)


def _read_source(context: ApplyContext, path: str) -> bytes:
    with context.source(path) as file:
        return read_limited(file, path)
