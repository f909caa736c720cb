"""The status of one Triton when its models are compared: it answered, is stopped, or is unreadable."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuplan.resources.model.read import ModelServer, ObservedModels
from gpuplan.resources.snapshot.containers import EngineContainer
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.resource import DiffContext
from gpuplan.types.snapshot import ProbeError


@dataclass(frozen=True)
class ServerStatus:
    """One container and the Triton in it."""

    container: Address
    container_id: str = ""
    """Empty if the container does not exist."""
    started: str = ""
    """When the container was last started."""
    server: ModelServer | None = None
    """The server, if it answered."""
    stopped: bool = False
    """The container does not exist or is not running."""
    unreadable: str = ""
    """Why it is not known which models are loaded, although some may be."""
    at_start: frozenset[str] = frozenset()
    """The models that it loads at startup."""
    files: frozenset[str] = frozenset()
    """The models whose files are in the repository that gpuplan keeps for it."""
    unverified: frozenset[str] = frozenset()
    """See ObservedModels."""
    external_repository: bool = False
    """It reads its models from a repository that gpuplan does not fill."""
    own_command: bool = False
    """The container's own command decides what is loaded at startup."""
    unmanaged: bool = False
    """The container was not created by gpuplan."""
    disturbed: str = ""
    """Why the container is replaced or restarted in this change set; empty if it is not."""

    def diagnostic(self, why: str) -> Diagnostic:
        """Why nothing is planned for the models of this server."""
        name = self.container.name
        return Diagnostic(
            "Cannot read a Triton server",
            f"Cannot determine which models {name} has loaded: {why}.",
            f"Check the container's log: docker logs {name}. Nothing is planned for its models until they can be read.",
        )


def server_status(name: str, observed: ObservedModels, context: DiffContext, *, own_command: bool) -> ServerStatus:
    """The status of the Triton in the container of this name in the plan file."""
    address = Address(context.node, "container", name)
    at_start, containers = observed.at_start, observed.containers
    if isinstance(at_start, ProbeError):
        why = f"its model repository could not be read: {at_start.text} ({at_start.code})"
        return ServerStatus(address, unreadable=why)
    if isinstance(containers, ProbeError):
        why = f"the Docker engine did not answer: {containers.text} ({containers.code})"
        return ServerStatus(address, unreadable=why)
    status = ServerStatus(
        address,
        at_start=at_start.get(name, frozenset()),
        files=observed.files.get(name, frozenset()),
        unverified=observed.unverified.get(name, frozenset()),
        own_command=own_command,
        disturbed=context.disturbed.get(address, ""),
    )
    container = observed.container(context.plan, name, own_command=own_command)
    if container is None or not container.busy:
        return replace(status, stopped=True)
    status = replace(status, container_id=container.id, started=container.started, unmanaged=not container.plan)
    server = _server(container, observed)
    if isinstance(server, ModelServer):
        return replace(status, server=server)
    return status if status.disturbed else replace(status, unreadable=server)


def _server(container: EngineContainer, observed: ObservedModels) -> ModelServer | str:
    """The server in a running container, or why it is not known."""
    servers = observed.servers
    server = servers if isinstance(servers, ProbeError) else servers.get(container.id)
    if isinstance(server, ProbeError):
        return f"{server.text} ({server.code})"
    return server or "no Triton server was found in the container"
