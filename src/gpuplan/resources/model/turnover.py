"""Finds the servers of which models leave or whose memory did not come back while others are to be loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gpuplan.resources.model.read import Observed
from gpuplan.resources.model.restart import Turnover, restart
from gpuplan.resources.model.situation import Situation
from gpuplan.resources.model.steps import load
from gpuplan.resources.model.wanted import Wanted, wanted_from
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, FieldChange, Step, Verb
from gpuplan.types.resource import Desired, DiffContext

Changes = Mapping[Address, Change]


def with_restarts(
    changes: Changes,
    desired: Sequence[Desired],
    servers: Mapping[str, Situation],
    observed: Observed,
    context: DiffContext,
) -> dict[Address, Change]:
    """The same changes, with a restart of each container where only that makes room, and each load told of unloads."""
    found = dict(changes)
    for name, server in servers.items():
        home = Address(context.node, "model", name)
        here = {each.address: each for each in desired if home.covers(each.address)}
        if server.server is None or server.disturbed or not here:
            continue
        gone = [each.address.name.partition("/")[2] for each in _leaving(home, changes)]
        found = {address: _told(each, gone) if home.covers(address) else each for address, each in found.items()}
        for turnover in _turnovers(home, here, server, observed, changes, context):
            if (change := restart(home, server, turnover)) is not None:
                root = found.get(home)
                merged = change if root is None else replace(change, reasons=(*root.reasons, *change.reasons))
                found = {home: merged, **_laid_again(here, server, found, home), **_without(found, home)}
                break
    return found


def _turnovers(
    home: Address,
    here: Mapping[Address, Desired],
    server: Situation,
    observed: Observed,
    changes: Changes,
    context: DiffContext,
) -> Iterator[Turnover]:
    """One for each GPU of the server whose memory is known."""
    wanted = {address: wanted_from(each.spec) for address, each in here.items()}
    budget = next((each.budget for each in wanted.values() if each.budget), None)
    if budget is None or budget.overcommit or server.server is None:
        return
    ready = {address: bool(server.server.ready(each.model)) for address, each in wanted.items()}
    loads = {each.model: each for address, each in wanted.items() if address in changes and not ready[address]}
    stays = {each.model: each for address, each in wanted.items() if ready[address]}
    leaves = {each.address.name.partition("/")[2]: _before(each.address, context) for each in _leaving(home, changes)}
    for number, device in enumerate(budget.devices):
        room = observed.memory.of(device, None, context)
        if room is not None and all(each.budget for each in (*loads.values(), *stays.values())):
            yield Turnover(number, device, room, loads, stays, leaves)


def _leaving(home: Address, changes: Changes) -> list[Change]:
    """The models that are unloaded, not those that only leave the list."""
    return [
        each
        for address, each in changes.items()
        if home.covers(address) and each.action is Action.DELETE and any(f.path == "state" for f in each.fields)
    ]


def _before(address: Address, context: DiffContext) -> Wanted | None:
    recorded = context.record.resources.get(address)
    return wanted_from(recorded.spec) if recorded else None


def _told(change: Change, gone: Sequence[str]) -> Change:
    """Each load of a change with the names of what the same change set unloads from its server."""
    if not gone or change.action is Action.DELETE:
        return change
    steps = tuple(_with(step, gone) if step.name == "load" else step for step in change.steps)
    return replace(change, steps=steps)


def _with(step: Step, gone: Sequence[str]) -> Step:
    return replace(step, arguments={**step.arguments, "unloaded": list(gone)})


def _laid_again(
    here: Mapping[Address, Desired], server: Situation, changes: Changes, home: Address
) -> dict[Address, Change]:
    """Overrides do not outlive a restart: those of models that stay are laid over their configs again."""
    found: dict[Address, Change] = {}
    for address, each in here.items():
        wanted = wanted_from(each.spec)
        if address in changes or not wanted.overlay:
            continue
        step = load(each, wanted, Verb.UPDATE, (), again=False)
        laid = wanted.overlay[0] if len(wanted.overlay) == 1 else list(wanted.overlay)
        field = FieldChange("override", laid, laid)
        why = f"{server.container.name} is restarted, and an override does not outlive that"
        found[address] = Change(address, Action.UPDATE, (field,), (why,), cause=home, steps=(step,))
    return found


def _without(changes: Changes, address: Address) -> dict[Address, Change]:
    return {each: change for each, change in changes.items() if each != address}
