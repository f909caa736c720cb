"""Desired models and what the servers have loaded → loads, reloads and unloads, in an order that serves ensembles."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from graphlib import TopologicalSorter

from gpuplan.planfile.sources.repositories import starts_itself
from gpuplan.resources.model.compare import compare_model
from gpuplan.resources.model.leftovers import leftovers
from gpuplan.resources.model.memory import check_capacity
from gpuplan.resources.model.read import ObservedModels
from gpuplan.resources.model.restart import with_restarts
from gpuplan.resources.model.server_status import ServerStatus, server_status
from gpuplan.resources.model.spec import model_spec
from gpuplan.resources.model.steps import Dependent, LoadModel, payload_of, smoke_test
from gpuplan.resources.typed import encode
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, Comparison, FieldChange, Step, Unmanaged, Unreadable
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import ProbeError
from gpuplan.types.value import digest

_FRACTION = re.compile(r"\.\d+")


def diff(desired: Sequence[Desired], observed: ObservedModels, context: DiffContext) -> Comparison:
    """Every desired model, and every other one that a server of this plan file has loaded."""
    names = _server_names(desired, observed, context)
    servers = {name: _status(name, observed, desired, context) for name in names}
    changes = _desired_changes(desired, servers, context)
    unmanaged: list[Unmanaged] = []
    addresses = {resource.address for resource in desired}
    for name, status in servers.items():
        if status.unreadable:
            continue
        models = {address.name.partition("/")[2] for address in addresses if address.name.startswith(f"{name}/")}
        for leftover in leftovers(status, models, context):
            if isinstance(leftover, Change):
                changes[leftover.address] = leftover
            else:
                unmanaged.append(leftover)
    changes = with_restarts(changes, desired, servers, observed, context)
    return Comparison(
        changes=tuple(changes.values()),
        unmanaged=tuple(unmanaged),
        unknown=_unknown(desired, servers, context),
        diagnostics=tuple(check_capacity(desired, observed.memory, context)),
        rests_on={address: _digest(address, servers) for address in sorted(addresses | set(changes))},
    )


def _server_names(desired: Sequence[Desired], observed: ObservedModels, context: DiffContext) -> Sequence[str]:
    """The containers of the plan file that may have models: desired, recorded, or running."""
    recorded = (address for address in context.record.resources if address.kind == "model")
    names = [_server_name(address) for address in (*(resource.address for resource in desired), *recorded)]
    if not isinstance(observed.containers, ProbeError):
        names += [c.role for c in observed.containers if c.plan == context.plan and c.busy]
    if not isinstance(observed.at_start, ProbeError):
        names += list(observed.at_start)
    return tuple(dict.fromkeys(names))


def _server_name(address: Address) -> str:
    return address.name.partition("/")[0]


def _status(name: str, observed: ObservedModels, desired: Sequence[Desired], context: DiffContext) -> ServerStatus:
    """The status of a server, with where its models come from now or came from when they were last applied."""
    recorded = (entry.spec for address, entry in context.record.resources.items() if address.kind == "model")
    specs = map(model_spec, (*(resource.spec for resource in desired), *recorded))
    repositories = {spec.repository for spec in specs if spec.container == name and spec.repository}
    status = server_status(name, observed, context, own_command=any(map(starts_itself, repositories)))
    return replace(status, external_repository=bool(repositories))


def _unknown(
    desired: Sequence[Desired], servers: Mapping[str, ServerStatus], context: DiffContext
) -> tuple[Unreadable, ...]:
    """The desired and the recorded models of servers that could not be read."""
    addresses = {resource.address for resource in desired}
    recorded = {address for address in context.record.resources if address.kind == "model"}
    unknown: list[Unreadable] = []
    for address in sorted(addresses | recorded):
        status = servers[_server_name(address)]
        why = status.unreadable or (_stopped(status) if address in addresses else "")
        if why:
            unknown.append(Unreadable(address, replace(status.diagnostic(why), address=str(address))))
    return tuple(unknown)


def _stopped(status: ServerStatus) -> str:
    return "its container is not running" if status.stopped and not status.disturbed else ""


def _desired_changes(
    desired: Sequence[Desired], servers: Mapping[str, ServerStatus], context: DiffContext
) -> dict[Address, Change]:
    """The changes of the desired models; parts are compared before what is composed of them."""
    resources = {resource.address: resource for resource in desired}
    needs = {address: [need for need in resource.needs if need in resources] for address, resource in resources.items()}
    skipped = {address for address in resources if _is_unreadable(servers[_server_name(address)])}
    changes: dict[Address, Change] = {}
    for address in TopologicalSorter(needs).static_order():
        if address not in skipped:
            change = compare_model(resources[address], servers[_server_name(address)], context, changes)
            if change is not None:
                changes[address] = change
    ordered = {address: changes[address] for address in resources if address in changes}
    ordered = with_dependents(ordered, desired, skipped)
    grouped: dict[Address, Change] = {}
    for name, status in servers.items():
        here = [address for address in resources if _server_name(address) == name]
        own = {address: ordered[address] for address in here if address in ordered}
        grouped |= with_lost_models(status, own, here, context)
    return grouped


def _is_unreadable(status: ServerStatus) -> bool:
    return bool(status.unreadable or _stopped(status))


def with_dependents(
    changes: Mapping[Address, Change], desired: Sequence[Desired], skipped: Set[Address]
) -> dict[Address, Change]:
    """The same changes; a model without a change is verified after the last of its parts that is loaded.

    That step waits for the other parts and runs even if one of them fails. Models that are `skipped` are left alone.
    """
    resources = {resource.address: resource for resource in desired}
    needs = {
        address: tuple(need for need in resource.needs if need.kind == "model")
        for address, resource in resources.items()
    }
    order = [address for address in TopologicalSorter(needs).static_order() if address in needs]
    loads = [address for address in order if address in changes and _load_step(changes[address]) is not None]
    dependents: dict[Address, list[Desired]] = {}
    other_parts: dict[Address, set[Address]] = {}
    for address in order:
        parts = _all_parts(address, needs)
        loaded = [load for load in loads if load in parts]
        if loaded and address not in changes and address not in skipped:
            dependents.setdefault(loaded[-1], []).append(resources[address])
            other_parts.setdefault(loaded[-1], set()).update(loaded[:-1])
    return {
        address: _verifying(change, dependents[address], other_parts[address]) if address in dependents else change
        for address, change in changes.items()
    }


def _all_parts(address: Address, needs: Mapping[Address, Sequence[Address]]) -> Set[Address]:
    """Everything that a model needs, directly or not."""
    parts: set[Address] = set()
    new = set(needs.get(address, ()))
    while new:
        parts |= new
        new = {need for part in new for need in needs.get(part, ())} - parts
    return parts


def _load_step(change: Change) -> Step | None:
    """The step that loads or reloads a model, if the change has one."""
    return next((step for step in change.steps if step.name == "load" and change.disturbs), None)


def _verifying(change: Change, dependents: Sequence[Desired], other_parts: Set[Address]) -> Change:
    step = _load_step(change)
    payload = payload_of(step) if step else None
    if step is None or not isinstance(payload, LoadModel):
        return change
    verified = tuple(Dependent(model_spec(resource.spec), smoke_test(resource)) for resource in dependents)
    after = tuple(sorted(other_parts - set(step.uses)))
    verifying = replace(step, payload=encode(replace(payload, dependents=verified)), after=after)
    return replace(change, steps=tuple(verifying if other is step else other for other in change.steps))


def with_lost_models(
    status: ServerStatus, changes: Mapping[Address, Change], models: Sequence[Address], context: DiffContext
) -> Mapping[Address, Change]:
    """The changes of one server; if it lost all models that it had, with one change of the server as their cause."""
    server, address = status.server, Address(context.node, "model", status.container.name)
    recorded = [model for model in models if model in context.record.resources]
    if server is None or status.disturbed or len(recorded) < 2 or any(model not in changes for model in recorded):
        return changes
    if any(server.loaded(model.name.partition("/")[2]) for model in recorded):
        return changes
    count = len(recorded)
    root = Change(
        address,
        Action.UPDATE,
        fields=(FieldChange("loaded", f"0 of {count}", f"{count} of {count}"),),
        reasons=(_why_lost(status, count, context),),
    )
    return {address: root} | {model: replace(change, cause=address) for model, change in changes.items()}


def _why_lost(status: ServerStatus, count: int, context: DiffContext) -> str:
    started, applied = _timestamp(status.started), _timestamp(context.record.when)
    name = status.container.name
    if started and applied and started > applied:
        when = f"{started.replace('T', ' ')} UTC"
        return f"0 of {count} models are loaded: {name} was restarted at {when}, after the last apply"
    return f"0 of {count} models are loaded, although {name} was not restarted since the last apply"


def _timestamp(text: str) -> str:
    """A time of an engine or of a record, both UTC, to the second; empty if it is none."""
    plain = _FRACTION.sub("", text).removesuffix("Z").removesuffix("+00:00")
    return plain if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", plain) else ""


def _digest(address: Address, servers: Mapping[str, ServerStatus]) -> str:
    """What the comparison of one model rests on; without the index's reasons, which may change from look to look."""
    container, _, model = address.name.partition("/")
    status = servers[container]
    server = status.server
    index = server.index.get(model, ()) if server else ()
    return digest(
        {
            "answers": server is not None,
            "versions": [list(pair) for pair in sorted((version.number or 0, version.state) for version in index)],
            "content": server.contents.get(model) if server else None,
            "at_start": model in status.at_start,
            "unverified": model in status.unverified,
        }
    )
