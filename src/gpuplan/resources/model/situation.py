"""What is known of one model server at the moment of a comparison: it answers, it is not up, or nobody can say."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuplan.resources.model.read import Observed, Server
from gpuplan.resources.snapshot.docker import Live
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.resource import DiffContext
from gpuplan.types.snapshot import ProbeError


@dataclass(frozen=True)
class Situation:
    """One container and the server in it."""

    container: Address
    id: str = ""
    """The container's own id; empty where it is not there."""
    started: str = ""
    """When the container was last started."""
    server: Server | None = None
    """The server that answered."""
    down: bool = False
    """The container is not there, or does not run."""
    unread: str = ""
    """Why it is not known what the server has loaded, where it may have something loaded."""
    at_start: frozenset[str] = frozenset()
    """The models that it loads when it starts."""
    files: frozenset[str] = frozenset()
    """The models whose files lie in its repository."""
    unproven: frozenset[str] = frozenset()
    """The models whose files before stand by still; see Observed."""
    remote: bool = False
    """The server reads its models from a repository of its own."""
    own: bool = False
    """The server's own command says what it loads at its start."""
    foreign: bool = False
    """Somebody else made the container."""
    disturbed: str = ""
    """Why the container will be another one or started anew in this change set; empty where it stays."""

    def diagnostic(self, why: str) -> Diagnostic:
        """Why nothing may be planned for the models of this server."""
        name = self.container.name
        return Diagnostic(
            "A model server could not be read",
            f"What {name} has loaded is not known: {why}.",
            f"Look at the container: docker logs {name}. Nothing is planned for its models until it answers.",
        )


def situation(name: str, observed: Observed, context: DiffContext, *, own: bool = False) -> Situation:
    """The situation of the container called `name` in the plan file; `own` = its own command starts its server."""
    container = Address(context.node, "container", name)
    at_start, containers = observed.at_start, observed.containers
    if isinstance(at_start, ProbeError):
        return Situation(container, unread=f"its repository could not be read: {at_start.text} ({at_start.code})")
    if isinstance(containers, ProbeError):
        return Situation(container, unread=f"the engine did not answer: {containers.text} ({containers.code})")
    found = Situation(
        container,
        at_start=at_start.get(name, frozenset()),
        files=observed.files.get(name, frozenset()),
        unproven=observed.unproven.get(name, frozenset()),
        own=own,
        disturbed=context.disturbed.get(container, ""),
    )
    live = observed.container(context.plan, name, own=own)
    if live is None or not live.busy:
        return replace(found, down=True)
    found = replace(found, id=live.id, started=live.started, foreign=not live.plan)
    server = _server(live, observed)
    if isinstance(server, Server):
        return replace(found, server=server)
    return found if found.disturbed else replace(found, unread=server)


def _server(container: Live, observed: Observed) -> Server | str:
    """The server in a running container, or why it is not known."""
    servers = observed.servers
    server = servers if isinstance(servers, ProbeError) else servers.get(container.id)
    if isinstance(server, ProbeError):
        return f"{server.text} ({server.code})"
    return server or "the node did not find a model server in its container"
