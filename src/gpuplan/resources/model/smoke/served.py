"""Smoke tests of the models that a node serves now, for `gpuplan smoke`."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.model.read import ModelServer, ObservedModels, read
from gpuplan.resources.model.smoke.run import RequestLoad, SmokeTarget, failed_smoke, run_smoke
from gpuplan.resources.model.smoke.spec import SmokeSpec
from gpuplan.resources.model.spec import model_spec
from gpuplan.triton.client import release_thread
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem
from gpuplan.types.resource import Desired
from gpuplan.types.smoke import NodeSmokeResults, SmokeResult
from gpuplan.types.snapshot import ProbeError


def smoke_served_models(
    context: ApplyContext, models: Mapping[Address, tuple[Desired, SmokeSpec]], load: RequestLoad
) -> NodeSmokeResults:
    """The results of these models; a server that could not be read is reported once.

    Raises:
        ConnectionLost: the connection to the node was lost.
    """
    try:
        return _run(context, models, load)
    finally:
        release_thread()


def _run(
    context: ApplyContext, models: Mapping[Address, tuple[Desired, SmokeSpec]], load: RequestLoad
) -> NodeSmokeResults:
    observed = read(context.look("docker", "triton"))
    results: list[SmokeResult] = []
    unreadable: dict[Diagnostic, None] = {}
    for address, (desired, spec) in models.items():
        target = _target(context, observed, address)
        if isinstance(target, ProbeError):
            unreadable[_unreadable(address, target)] = None
            continue
        try:
            if target is None:
                raise Problem(_not_running(address))
            versions = model_spec(desired.spec).versions or _ready_versions(observed, target, address)
            results.extend(run_smoke(target, address, versions, spec, load))
        except ConnectionLost:
            raise
        except Problem as problem:
            results.append(failed_smoke(address, problem))
    return NodeSmokeResults(context.node, tuple(results), tuple(unreadable))


def _target(context: ApplyContext, observed: ObservedModels, address: Address) -> SmokeTarget | ProbeError | None:
    """The server of a model; None if its container is not running."""
    if isinstance(observed.containers, ProbeError):
        return observed.containers
    name = address.name.partition("/")[0]
    container = observed.container(context.plan, name)
    if container is None or not container.busy:
        return None
    if isinstance(observed.servers, ProbeError):
        return observed.servers
    server = observed.servers.get(container.id, ProbeError("absent", "no Triton server was found in the container"))
    if isinstance(server, ProbeError):
        return server
    return SmokeTarget(context, container.id, name, server.address)


def _ready_versions(observed: ObservedModels, target: SmokeTarget, address: Address) -> tuple[int, ...]:
    """The versions that are READY, of a model whose versions the plan file does not state; version 1 if none is."""
    servers = {} if isinstance(observed.servers, ProbeError) else observed.servers
    server = servers.get(target.container)
    ready = server.ready(address.name.partition("/")[2]) if isinstance(server, ModelServer) else ()
    return ready or (1,)


def _unreadable(address: Address, error: ProbeError) -> Diagnostic:
    container = address.name.partition("/")[0]
    return Diagnostic(
        "Cannot read a Triton server",
        f"The models of {container} were not tested: {error.text} ({error.code}).",
        f"Check the container's log: docker logs {container}",
        address=str(Address(address.node, "container", container)),
    )


def _not_running(address: Address) -> Diagnostic:
    container, _, model = address.name.partition("/")
    return Diagnostic(
        "The model is not served",
        f"{model} cannot be tested: its container {container} is not running.",
        f"Run gpuplan apply, or check why it stopped: docker logs {container}",
        address=str(address),
    )
