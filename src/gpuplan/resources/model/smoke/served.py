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
from gpuplan.types.report import NodeSmokeResults, SmokeResult
from gpuplan.types.resource import Desired
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
        name, _, model = address.name.partition("/")
        try:
            container, server = _server(context, observed, address)
            if isinstance(server, ProbeError):
                unreadable[_unreadable(address, server)] = None
                continue
            target = SmokeTarget(context, container, name, server.address)
            versions = model_spec(desired.spec).versions or server.ready(model) or (1,)
            results.extend(run_smoke(target, address, versions, spec, load))
        except ConnectionLost:
            raise
        except Problem as problem:
            results.append(failed_smoke(address, problem))
    return NodeSmokeResults(context.node, tuple(results), tuple(unreadable))


def _server(context: ApplyContext, observed: ObservedModels, address: Address) -> tuple[str, ModelServer | ProbeError]:
    """The id of a model's container and the server in it; raises Problem if the container is not running."""
    if isinstance(observed.containers, ProbeError):
        return "", observed.containers
    container = observed.container(context.plan, address.name.partition("/")[0])
    if container is None or not container.busy:
        raise Problem(_not_running(address))
    if isinstance(observed.servers, ProbeError):
        return container.id, observed.servers
    absent = ProbeError("absent", "no Triton server was found in the container")
    return container.id, observed.servers.get(container.id, absent)


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
