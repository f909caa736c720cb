"""Models that a server has loaded, or loads at startup, and that the plan file does not list for it."""

from __future__ import annotations

from collections.abc import Iterator, Set

from gpuplan.resources.model.read import ModelServer
from gpuplan.resources.model.server_status import ServerStatus
from gpuplan.resources.model.steps import UnloadModel, unlist, unload
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, FieldChange, Step, Unmanaged
from gpuplan.types.resource import DiffContext


def leftovers(status: ServerStatus, desired: Set[str], context: DiffContext) -> Iterator[Change | Unmanaged]:
    """The models to unload, which were recorded or come from gpuplan's files, and the unmanaged ones, of one server.

    From an unmanaged container nothing is unloaded.
    """
    server = Address(context.node, "model", status.container.name)
    index = status.server.index if status.server else {}
    loaded = {model for model in index if status.server and status.server.loaded(model)}
    loaded -= _loaded_parts(status, desired, context)
    for model in sorted((loaded | status.at_start) - desired):
        address = server.part(model)
        if status.unmanaged:
            yield _unmanaged(address, status)
            continue
        managed = address in context.record.resources or model in status.files | status.at_start
        if status.server and model in loaded:
            managed = managed or model in status.server.contents
            yield _unload(address, status, status.server, context) if managed else _unmanaged(address, status)
        elif status.server:
            files = Address(context.node, "repository", status.container.name).part(model)
            step = unload(address, UnloadModel(status.container.name, model), (status.container, files))
            yield _at_start_only(address, status, step)
        elif not _repository_removed(status, context):
            yield _at_start_only(address, status, unlist(address, status.container.name, model))


def _loaded_parts(status: ServerStatus, desired: Set[str], context: DiffContext) -> Set[str]:
    """Parts that a server loaded by itself with an ensemble of an external repository, and unloads with it."""
    if status.server is None or not status.external_repository:
        return frozenset()
    server = Address(context.node, "model", status.container.name)
    recorded = {model for model in status.server.index if server.part(model) in context.record.resources}
    parts: set[str] = set()
    new = set(desired | recorded)
    while new := {part for model in new for part in status.server.parts.get(model, ())} - parts:
        parts |= new
    return parts - recorded - status.at_start


def _unload(address: Address, status: ServerStatus, server: ModelServer, context: DiffContext) -> Change:
    model, container = address.name.partition("/")[2], status.container.name
    payload = UnloadModel(container, model, status.external_repository, status.own_command)
    state = "being loaded" if server.loading(model) else "loaded"
    return Change(
        address,
        Action.DELETE,
        fields=(FieldChange("state", server.state(model), None),),
        reasons=(f"{model} is {state}, but the plan file does not list it for {container}",),
        interrupts=(f"model {model} on {container} stops serving",) if server.ready(model) else (),
        disturbs={address: f"{model} is unloaded"},
        steps=(unload(address, payload, _needed(address, status, server, context)),),
    )


def _at_start_only(address: Address, status: ServerStatus, step: Step) -> Change:
    """A model that is not loaded, but would be at the next startup, or would fail it if its files are gone."""
    model = address.name.partition("/")[2]
    return Change(
        address,
        Action.DELETE,
        fields=(FieldChange("at_start", True, False),),
        reasons=(f"the plan file does not list {model} for {status.container.name}",),
        steps=(step,),
    )


def _unmanaged(address: Address, status: ServerStatus) -> Unmanaged:
    return Unmanaged(address, f"model {address.name.partition('/')[2]}, loaded in {status.container.name}")


def _needed(address: Address, status: ServerStatus, server: ModelServer, context: DiffContext) -> tuple[Address, ...]:
    """What the model needs as long as it is loaded: by the record, and by its server."""
    container, _, model = address.name.partition("/")
    recorded = context.record.resources.get(address)
    parts = [need for need in recorded.needs if need.kind == "model"] if recorded else []
    parts += [Address(address.node, "model", container).part(part) for part in server.parts.get(model, ())]
    return (status.container, Address(address.node, "repository", container).part(model), *dict.fromkeys(parts))


def _repository_removed(status: ServerStatus, context: DiffContext) -> bool:
    """Whether this change set removes the whole repository, and the list of models with it."""
    repository = Address(context.node, "repository", status.container.name)
    return repository in context.disturbed and bool(status.files | status.at_start)
