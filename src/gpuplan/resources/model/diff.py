"""Wanted models and what the servers have loaded → loads, reloads, unloads, and who else is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter

from gpuplan.planfile.repositories import starts_itself
from gpuplan.resources.model.capacity import overfull
from gpuplan.resources.model.dependents import with_dependents
from gpuplan.resources.model.judge import judge
from gpuplan.resources.model.leftovers import leftovers
from gpuplan.resources.model.lost import lost
from gpuplan.resources.model.read import Observed
from gpuplan.resources.model.situation import Situation, situation
from gpuplan.resources.model.turnover import with_restarts
from gpuplan.resources.model.wanted import wanted_from
from gpuplan.types.address import Address
from gpuplan.types.change import Change, Comparison, Unknown, Unmanaged
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import ProbeError
from gpuplan.types.value import digest


def diff(desired: Sequence[Desired], observed: Observed, context: DiffContext) -> Comparison:
    """Every wanted model, and every one that is loaded in a server of this plan file without being wanted."""
    servers = {name: _situation(name, observed, desired, context) for name in _names(desired, observed, context)}
    unknown = _unknown(desired, servers, context)
    changes = _wanted_changes(desired, servers, context)
    unmanaged: list[Unmanaged] = []
    wanted = {each.address for each in desired}
    for name, found in servers.items():
        if not found.unread:
            own = {address.name.partition("/")[2] for address in wanted if address.name.startswith(f"{name}/")}
            for each in leftovers(found, own, context):
                if isinstance(each, Change):
                    changes[each.address] = each
                else:
                    unmanaged.append(each)
    changes = with_restarts(changes, desired, servers, observed, context)
    return Comparison(
        changes=tuple(changes.values()),
        unmanaged=tuple(unmanaged),
        unknown=unknown,
        diagnostics=tuple(overfull(desired, observed.memory, context)),
        rests_on={address: _digest(address, servers) for address in sorted(wanted | set(changes))},
    )


def _names(desired: Sequence[Desired], observed: Observed, context: DiffContext) -> Sequence[str]:
    """The containers of the plan file that may have models: wanted, recorded, or running."""
    recorded = (address.name for address in context.record.resources if address.kind == "model")
    names = [address.partition("/")[0] for address in (*(each.address.name for each in desired), *recorded)]
    if not isinstance(observed.containers, ProbeError):
        names += [each.role for each in observed.containers if each.plan == context.plan and each.busy]
    if not isinstance(observed.at_start, ProbeError):
        names += list(observed.at_start)
    return tuple(dict.fromkeys(names))


def _unknown(desired: Sequence[Desired], servers: Mapping[str, Situation], context: DiffContext) -> tuple[Unknown, ...]:
    """The wanted and the recorded models whose server could not be read."""
    wanted = {each.address for each in desired}
    recorded = {address for address in context.record.resources if address.kind == "model"}
    unknown: list[Unknown] = []
    for address in sorted(wanted | recorded):
        found = servers[_container_of(address)]
        why = found.unread or (_down(found) if address in wanted else "")
        if why:
            unknown.append(Unknown(address, replace(found.diagnostic(why), address=str(address))))
    return tuple(unknown)


def _situation(name: str, observed: Observed, desired: Sequence[Desired], context: DiffContext) -> Situation:
    """With where the server's models come from, or came from when they were last applied."""
    recorded = (each.spec for address, each in context.record.resources.items() if address.kind == "model")
    specs = (*(each.spec for each in desired), *recorded)
    places = {str(spec.get("repository") or "") for spec in specs if spec.get("container") == name} - {""}
    own = any(map(starts_itself, places))
    return replace(situation(name, observed, context, own=own), remote=bool(places))


def _is_unread(found: Situation) -> bool:
    return bool(found.unread or _down(found))


def _down(found: Situation) -> str:
    return "its container does not run" if found.down and not found.disturbed else ""


def _wanted_changes(
    desired: Sequence[Desired], servers: Mapping[str, Situation], context: DiffContext
) -> dict[Address, Change]:
    """The changes of the wanted models, in the given order; parts are judged before what is composed of them."""
    by_address = {each.address: each for each in desired}
    needs = {each.address: [need for need in each.needs if need in by_address] for each in desired}
    found: dict[Address, Change] = {}
    for address in TopologicalSorter(needs).static_order():
        server = servers[_container_of(address)]
        if _is_unread(server):
            continue
        each = by_address[address]
        change = judge(each, wanted_from(each.spec), server, context, found)
        if change is not None:
            found[address] = change
    unread = {each for each in by_address if _is_unread(servers[_container_of(each)])}
    ordered = with_dependents({each: found[each] for each in by_address if each in found}, desired, unread)
    gathered: dict[Address, Change] = {}
    for name, server in servers.items():
        here = [address for address in by_address if _container_of(address) == name]
        own = {address: ordered[address] for address in here if address in ordered}
        gathered |= lost(server, own, here, context)
    return gathered


def _container_of(address: Address) -> str:
    return address.name.partition("/")[0]


def _digest(address: Address, servers: Mapping[str, Situation]) -> str:
    """What a comparison of one model rests on; a reason in the index may change its words, so it is left out."""
    container, _, model = address.name.partition("/")
    found = servers[container]
    server = found.server
    versions = sorted((each.number or 0, each.state) for each in server.index.get(model, ())) if server else []
    return digest(
        {
            "answers": server is not None,
            "versions": [[number, state] for number, state in versions],
            "content": server.contents.get(model) if server else None,
            "at_start": model in found.at_start,
            "unproven": model in found.unproven,
        }
    )
