"""What servers of this plan file have loaded, or would load at their start, without being wanted any more."""

from __future__ import annotations

from collections.abc import Iterator, Set

from gpuplan.resources.model.read import Server
from gpuplan.resources.model.situation import Situation
from gpuplan.resources.model.steps import forget, unload
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, FieldChange, Unmanaged
from gpuplan.types.resource import DiffContext


def leftovers(found: Situation, wanted: Set[str], context: DiffContext) -> Iterator[Change | Unmanaged]:
    """Models to unload (recorded, or with files of ours) and models that somebody else loaded, of one server.

    Of a server that somebody else started nothing is unloaded.
    """
    home = Address(context.node, "model", found.container.name)
    seen = {model for model in found.server.index if found.server.loaded(model)} if found.server else set()
    seen -= _pulled_in(found, wanted, context)
    for model in sorted((seen | found.at_start) - wanted):
        address = home.part(model)
        if found.foreign:
            yield _stranger(address, found)
            continue
        ours = address in context.record.resources or model in found.files | found.at_start
        if found.server and model in seen:
            ours = ours or model in found.server.contents
            yield _unloaded(address, found, found.server, context) if ours else _stranger(address, found)
        elif found.server:
            yield _unlisted(address, found, context)
        elif not _repository_goes(found, context):
            yield _forgotten(address, found)


def _pulled_in(found: Situation, wanted: Set[str], context: DiffContext) -> Set[str]:
    """Parts that a server loaded by itself with an ensemble of a repository of its own, and takes out with it."""
    if found.server is None or not found.remote:
        return frozenset()
    home = Address(context.node, "model", found.container.name)
    known = {model for model in found.server.index if home.part(model) in context.record.resources}
    parts: set[str] = set()
    fresh = set(wanted | known)
    while fresh := {part for model in fresh for part in found.server.parts.get(model, ())} - parts:
        parts |= fresh
    return parts - known - found.at_start


def _unloaded(address: Address, found: Situation, server: Server, context: DiffContext) -> Change:
    model = address.name.partition("/")[2]
    ready, of_server = server.ready(model), f"the models of {found.container.name}"
    held = _held(address, found, server, context)
    return Change(
        address,
        Action.DELETE,
        fields=(FieldChange("state", server.state(model), None),),
        reasons=(f"{model} is {'loading' if server.loading(model) else 'loaded'} and not among {of_server}",),
        interrupts=(f"model {model} on {found.container.name} stops serving",) if ready else (),
        disturbs={address: f"{model} is unloaded"},
        steps=(unload(address, found.container.name, model, held, dependents=found.remote, own=found.own),),
    )


def _unlisted(address: Address, found: Situation, context: DiffContext) -> Change:
    """Not loaded, but listed: the next start of the server would load it, or fail for want of its files."""
    model = address.name.partition("/")[2]
    held = (found.container, Address(context.node, "repository", found.container.name).part(model))
    return Change(
        address,
        Action.DELETE,
        fields=(FieldChange("at_start", True, False),),
        reasons=(f"{model} is not among the models of {found.container.name}",),
        steps=(unload(address, found.container.name, model, held),),
    )


def _forgotten(address: Address, found: Situation) -> Change:
    model = address.name.partition("/")[2]
    return Change(
        address,
        Action.DELETE,
        fields=(FieldChange("at_start", True, False),),
        reasons=(f"{model} is not among the models of {found.container.name}",),
        steps=(forget(address, found.container.name, model),),
    )


def _stranger(address: Address, found: Situation) -> Unmanaged:
    model = address.name.partition("/")[2]
    return Unmanaged(address, f"model {model} is loaded in {found.container.name} and is not of this plan file")


def _held(address: Address, found: Situation, server: Server, context: DiffContext) -> tuple[Address, ...]:
    """What the model holds on to as long as it is loaded: what was recorded, and what the server says."""
    container, _, model = address.name.partition("/")
    home = Address(address.node, "model", container)
    recorded = context.record.resources.get(address)
    parts = [need for need in recorded.needs if need.kind == "model"] if recorded else []
    parts += [home.part(part) for part in server.parts.get(model, ())]
    files = Address(address.node, "repository", container).part(model)
    return (found.container, files, *dict.fromkeys(parts))


def _repository_goes(found: Situation, context: DiffContext) -> bool:
    """True where the whole repository is removed in this change set, and its list with it."""
    repository = Address(context.node, "repository", found.container.name)
    return repository in context.disturbed and bool(found.files | found.at_start)
