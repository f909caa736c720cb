"""Asks models that a node serves already, each where it is found."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.model.apply.proving import Load, Place, no_proof, prove
from gpuplan.resources.model.read import Observed, Server, read
from gpuplan.resources.model.server import leave_thread
from gpuplan.resources.model.smoke.asked import Asked
from gpuplan.resources.model.wanted import wanted_from
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem
from gpuplan.types.proof import NodeProofs, Proof
from gpuplan.types.resource import Desired
from gpuplan.types.snapshot import ProbeError


def ask_served(context: ApplyContext, chosen: Mapping[Address, tuple[Desired, Asked]], load: Load) -> NodeProofs:
    """A proof of each model; a server that could not be read is told once.

    Raises:
        ConnectionLost: the node is gone.
    """
    try:
        return _asked(context, chosen, load)
    finally:
        leave_thread()


def _asked(context: ApplyContext, chosen: Mapping[Address, tuple[Desired, Asked]], load: Load) -> NodeProofs:
    observed = read(context.look("docker", "triton"))
    proofs: list[Proof] = []
    unread: dict[Diagnostic, None] = {}
    for address, (desired, asked) in chosen.items():
        place = _place(context, observed, address)
        if isinstance(place, ProbeError):
            unread[_unread(address, place)] = None
            continue
        try:
            if place is None:
                raise Problem(_down(address))
            versions = wanted_from(desired.spec).versions or _ready(observed, place, address)
            proofs.extend(prove(place, address, versions, asked, load))
        except ConnectionLost:
            raise
        except Problem as problem:
            proofs.append(no_proof(address, problem))
    return NodeProofs(context.node, tuple(proofs), tuple(unread))


def place_of(context: ApplyContext, container: str, called: str, server: Server) -> Place:
    """Where the models of a server are asked."""
    return Place(context, container, called, server.address)


def _place(context: ApplyContext, observed: Observed, address: Address) -> Place | ProbeError | None:
    """Where a model is to be asked; None where its container does not run."""
    if isinstance(observed.containers, ProbeError):
        return observed.containers
    called = address.name.partition("/")[0]
    container = observed.container(context.plan, called)
    if container is None or not container.busy:
        return None
    if isinstance(observed.servers, ProbeError):
        return observed.servers
    server = observed.servers.get(container.id, ProbeError("absent", "the node did not find a server in its container"))
    return server if isinstance(server, ProbeError) else place_of(context, container.id, called, server)


def _ready(observed: Observed, place: Place, address: Address) -> tuple[int, ...]:
    """The versions that serve, of a model whose files are not ours; one that serves none is asked all the same."""
    server = {} if isinstance(observed.servers, ProbeError) else observed.servers
    found = server.get(place.container)
    ready = found.ready(address.name.partition("/")[2]) if isinstance(found, Server) else ()
    return ready or (1,)


def _unread(address: Address, error: ProbeError) -> Diagnostic:
    called = address.name.partition("/")[0]
    return Diagnostic(
        "A model server could not be read",
        f"Whether {called} answers is not known: {error.text} ({error.code}).",
        f"Look at the container: docker logs {called}",
        address=str(Address(address.node, "container", called)),
    )


def _down(address: Address) -> Diagnostic:
    called, _, model = address.name.partition("/")
    return Diagnostic(
        "A model is not served",
        f"{model} cannot be asked, since its container {called} does not run.",
        "Apply the plan file, or look why it does not run.",
        address=str(address),
    )
