"""Restarts offered: where memory that unloaded models had does not come back, so that the next ones do not fit.

Frameworks keep what they allocated until the process ends. A server that is started anew loads what is listed for its
start by itself, so a restart costs a gap of its models and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuplan.resources.model.capacity import needed
from gpuplan.resources.model.memory import Room, size
from gpuplan.resources.model.read import Server
from gpuplan.resources.model.situation import Situation
from gpuplan.resources.model.wanted import Wanted
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, FieldChange, Step, Verb

KEEPS: Mapping[str, str] = {
    "tensorflow": "TensorFlow gives no memory back before the process ends",
    "pytorch": "PyTorch keeps the blocks that it has allocated",
}
"""Backends that do not give back what an unloaded model had, and why (README of tensorflow_backend and of
pytorch_backend; triton-inference-server/server, issues 3320, 3621 and 5180)."""
SLACK = 768 << 20
"""Bytes that a server may use beyond what its models declare, such as for its CUDA context."""


@dataclass(frozen=True)
class Turnover:
    """What one change set does to the models of one server on one of its GPUs."""

    number: int
    device: str
    room: Room
    loads: Mapping[str, Wanted]
    """Models that are not loaded and will be."""
    stays: Mapping[str, Wanted]
    """Models that are loaded and stay."""
    leaves: Mapping[str, Wanted | None]
    """Models that are loaded and go; None where nothing is known of what they take."""


def restart(home: Address, found: Situation, turnover: Turnover) -> Change | None:
    """The restart of a server's container, where only that makes room for what is to be loaded; else None."""
    server, room = found.server, turnover.room
    need = sum(needed(each, turnover.number) for each in turnover.loads.values())
    free = _free_after(turnover)
    if server is None or free is None or not need or need <= free:
        return None
    kept = sum(needed(each, turnover.number) for each in turnover.stays.values())
    others = sum(used for who, used in (room.used or {}).items() if who != found.id)
    if need + kept + others > room.total:
        return None
    name = found.container.name
    return Change(
        home,
        Action.UPDATE,
        fields=(FieldChange("memory", f"{size(free)} free", f"{size(room.total - kept - others)} free"),),
        reasons=_reasons(turnover, need, free, (room.used or {}).get(found.id, 0)),
        interrupts=_interrupts(found, server, turnover),
        disturbs={home: f"container {name} is restarted"},
        steps=(restart_step(home, found.container),),
    )


def restart_step(home: Address, container: Address) -> Step:
    """Start a server's container anew: after the unloads, before the loads."""
    title = f"restart container {container.name}, which gives back its memory"
    return Step(
        "restart", home, Verb.UPDATE, title, {"container": container.name}, makes=(container,), frees=(container,)
    )


def _free_after(turnover: Turnover) -> int | None:
    """Bytes free for what is loaded, once the models that leave are unloaded; None where that cannot be told."""
    free = turnover.room.free
    if free is None or any(each is None or each.budget is None for each in turnover.leaves.values()):
        return None
    wanted = {each.budget.backend for each in turnover.loads.values() if each.budget}
    for each in turnover.leaves.values():
        backend = each.budget.backend if each is not None and each.budget else ""
        if each is not None and (backend not in KEEPS or wanted == {backend}):  # a pool serves its own framework again
            free += needed(each, turnover.number)
    return free


def _reasons(turnover: Turnover, need: int, free: int, used: int) -> tuple[str, ...]:
    names = ", ".join(turnover.loads)
    declared = sum(needed(each, turnover.number) for each in turnover.stays.values())
    declared += sum(needed(each, turnover.number) for each in turnover.leaves.values() if each is not None)
    reasons = [f"{names} needs {size(need)} of {turnover.device}, and {size(free)} would be free"]
    if used > declared + SLACK:
        has = f"what is loaded declares {size(declared)}" if declared else "nothing is loaded that declares any"
        reasons.append(f"the server uses {size(used)}, and {has}: memory of unloaded models did not come back")
    backends = {each.budget.backend for each in turnover.leaves.values() if each is not None and each.budget}
    reasons.extend(why for backend, why in KEEPS.items() if backend in backends)
    return tuple(reasons)


def _interrupts(found: Situation, server: Server, turnover: Turnover) -> tuple[str, ...]:
    serving = [model for model in turnover.stays if server.ready(model)]
    which = f": {', '.join(serving)} stop serving until they are loaded again" if serving else ""
    if len(serving) == 1:
        which = f": {serving[0]} stops serving until it is loaded again"
    return (f"container {found.container.name} is restarted{which}",)
