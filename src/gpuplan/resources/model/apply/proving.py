"""Puts a loaded model to the proof: asks each version for inferences and says what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.model.apply.asking import CONNECTING, Asker, Registered
from gpuplan.resources.model.apply.burst import Burst, Volley, fire, told
from gpuplan.resources.model.apply.grpc_port import grpc_address
from gpuplan.resources.model.apply.over_http import OverHttp
from gpuplan.resources.model.apply.shared_memory import Inside, Region, system_region
from gpuplan.resources.model.smoke.answer import Answer, complaints
from gpuplan.resources.model.smoke.asked import INSTALL, Asked, has_grpc
from gpuplan.resources.model.smoke.form import form_of, words
from gpuplan.resources.model.smoke.layout import Layout, filled, layout_of
from gpuplan.resources.model.smoke.request import Request, request_for
from gpuplan.resources.model.smoke.values import ReadFile
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.proof import Proof

if TYPE_CHECKING:
    from tritonclient.http import InferenceServerClient

LARGEST_FILE = 1 << 28
"""Bytes of a file that fills an input."""


@dataclass(frozen=True)
class Place:
    """Where a model is served."""

    context: ApplyContext
    container: str
    """Id of the container."""
    called: str
    """Its name."""
    address: str
    """`host:port` of the server's HTTP, as the node reaches it."""


@dataclass(frozen=True)
class Load:
    """How often each version is asked, and how many requests are in flight."""

    requests: int = 1
    concurrency: int = 1


ONCE = Load()


def prove(place: Place, address: Address, versions: Sequence[int], asked: Asked, load: Load) -> tuple[Proof, ...]:
    """A proof of each version; what a version did not answer well is in its diagnostics.

    Raises:
        Problem: it did not come to asking: the request does not fit the model, a file is missing, gRPC is not to be
            had, the server does not answer at all.
    """
    model = address.name.partition("/")[2]
    read = partial(_read, place.context)
    with _forwarded(place.context, place.address) as http:
        from tritonclient.http import InferenceServerClient

        with InferenceServerClient(http, connection_timeout=CONNECTING, network_timeout=asked.timeout) as client:
            request = _request(client, model, asked, read, address)
            protocol = asked.protocol or ("grpc" if request.form.decoupled else "http")
            with _connecting(place, protocol, http, asked.timeout, address) as connect:
                proving = _Proving(place, address, asked, load, request, client, protocol, connect, read)
                return tuple(proving.of(version) for version in versions if asked.version in (None, version))


@dataclass(frozen=True)
class _Proving:
    place: Place
    address: Address
    asked: Asked
    load: Load
    request: Request
    client: InferenceServerClient
    protocol: str
    connect: Callable[[], Asker]
    read: ReadFile

    def of(self, version: int) -> Proof:
        """The proof of one version."""
        if self.asked.shared_memory == "none":
            return self._proof(version, self._fire(version, None))
        layout = layout_of(self.request)
        with self._region(layout) as region:
            burst = self._fire(version, Registered(region.name, layout))
            if burst.last is not None and not burst.faults:
                self._look_into(burst, layout, region)
            return self._proof(version, burst)

    def _fire(self, version: int, region: Registered | None) -> Burst:
        volley = Volley(self.request, version, region, self.load.requests, self.load.concurrency)
        return fire(volley, self.connect, self._check)

    def _check(self, answer: Answer) -> tuple[str, ...]:
        return tuple(complaints(answer, self.request, self.asked, self.read))

    def _look_into(self, burst: Burst, layout: Layout, region: Region) -> None:
        """What the last request left in shared memory; all of them wrote to the same place."""
        if burst.last is None:
            return
        try:
            wrong = self._check(filled(burst.last, layout, self.request, region.read()))
        except ValueError as fault:
            wrong = (f"what it left in shared memory is no tensor: {fault}",)
        if wrong:
            burst.faults["; ".join(wrong)] += len(burst.latencies)
            burst.latencies.clear()

    @contextmanager
    def _region(self, layout: Layout) -> Iterator[Region]:
        inside = Inside(self.place.context.docker(), self.place.container, self.place.called)
        if self.asked.shared_memory == "system":
            with system_region(inside, layout.content, self.client) as region:
                yield region
            return
        from gpuplan.resources.model.apply.cuda_memory import cuda_region

        rounds = -(-self.load.requests // self.load.concurrency)
        with cuda_region(inside, layout.content, self.asked.timeout * rounds, self.client) as on_gpu:
            yield on_gpu

    def _proof(self, version: int, burst: Burst) -> Proof:
        return Proof(
            self.address,
            version,
            self.protocol,
            self.asked.shared_memory,
            burst.sent,
            min(self.load.concurrency, self.load.requests),
            tuple(sorted(burst.latencies)),
            burst.seconds,
            (self._failed(version, burst),) if burst.faults else (),
        )

    def _failed(self, version: int, burst: Burst) -> Diagnostic:
        model, called = self.request.model, self.place.called
        inputs = (f"{each.tensor.name} {each.tensor.datatype.name} {words(each.shape)}" for each in self.request.inputs)
        how = "" if self.protocol == "http" else " over gRPC"
        asked = f"Version {version} of {model} on {called} was asked{how} with {', '.join(inputs) or 'no input'}"
        return Diagnostic(
            "A model does not answer as it should",
            f"{asked}: {told(burst.faults, burst.sent)}.",
            f"Look at the server's log: docker logs {called}. Where the model is right, correct its smoke section.",
            address=str(self.address),
        )


def _request(client: InferenceServerClient, model: str, asked: Asked, read: ReadFile, address: Address) -> Request:
    from geventhttpclient.response import HTTPParseError
    from tritonclient.utils import InferenceServerException

    try:
        form = form_of(client.get_model_config(model))
    except (InferenceServerException, OSError, HTTPParseError) as fault:
        said = fault.message() if isinstance(fault, InferenceServerException) else str(fault) or type(fault).__name__
        raise Problem(
            Diagnostic(
                "A model cannot be asked",
                f"The server says of {model}: {said}.",
                "Is it loaded? gpuplan plan tells.",
                address=str(address),
            )
        ) from fault
    made = request_for(model, asked, form, read)
    if isinstance(made, Request):
        return made
    raise Problem([fault.at(None, str(address)) for fault in made])


@contextmanager
def _connecting(
    place: Place, protocol: str, http: str, timeout: float, address: Address
) -> Iterator[Callable[[], Asker]]:
    """How each worker connects."""
    if protocol == "http":
        with nullcontext():
            yield partial(OverHttp, http, timeout)
        return
    if not has_grpc():
        detail = f"{address.name} is asked over gRPC, and the library for that is not here."
        raise Problem(Diagnostic("gRPC is not installed", detail, INSTALL, address=str(address)))
    from gpuplan.resources.model.apply.over_grpc import OverGrpc

    far = grpc_address(place.context.docker(), place.container)
    if far is None:
        detail = f"{address.name} is asked over gRPC, and nothing leads to the grpc port of {place.called}."
        fix = f"Publish it: containers.{place.called}.ports: {{ grpc: 8001 }}"
        raise Problem(Diagnostic("A model server's gRPC cannot be reached", detail, fix, address=str(address)))
    with _forwarded(place.context, far) as grpc:
        yield partial(OverGrpc, grpc, timeout)


@contextmanager
def _forwarded(context: ApplyContext, address: str) -> Iterator[str]:
    host, _, port = address.rpartition(":")
    with context.forward(int(port), host.strip("[]")) as here:
        yield here


def _read(context: ApplyContext, path: str) -> bytes:
    with context.source(path) as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise Problem(Diagnostic("A file of a smoke inference is too large", f"{path} is larger than 256 MiB."))
    return content


def failures(proofs: Sequence[Proof]) -> tuple[Diagnostic, ...]:
    """All that was wrong."""
    return tuple(each for proof in proofs for each in proof.diagnostics)


def no_proof(address: Address, problem: Problem) -> Proof:
    """Of a model where it did not come to asking."""
    told = tuple(replace(each, address=each.address or str(address)) for each in problem.diagnostics)
    return Proof(address, None, diagnostics=told)
