"""Restarts a server if memory of unloaded models is not freed, so that the models to be loaded do not fit.

Frameworks keep what they allocated until the process exits. A restarted server loads the models of its list by itself,
so all that a restart costs is their downtime.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpuplan.resources.model.compare import shown_overrides
from gpuplan.resources.model.memory import MemoryPool, format_bytes
from gpuplan.resources.model.read import ModelServer, ObservedModels
from gpuplan.resources.model.server_status import ServerStatus
from gpuplan.resources.model.spec import ModelSpec, model_spec
from gpuplan.resources.model.steps import LoadModel, load, payload_of, restart_server
from gpuplan.resources.typed import encode
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, FieldChange, Verb
from gpuplan.types.resource import Desired, DiffContext

KEEPS_MEMORY: Mapping[str, str] = {
    "tensorflow": "TensorFlow frees no memory before the process exits",
    "pytorch": "PyTorch keeps the memory that it has allocated",
}
"""Backends that do not free the memory of an unloaded model (README of tensorflow_backend and of pytorch_backend;
triton-inference-server/server, issues 3320, 3621 and 5180)."""
SLACK = 768 << 20
"""Bytes that a server may use beyond what its models declare, such as for its CUDA context."""

Changes = Mapping[Address, Change]


@dataclass(frozen=True)
class DeviceTurnover:
    """The models of one server that a change set loads, keeps and unloads, and the memory of one of its GPUs."""

    number: int
    """Of the GPU, inside the container."""
    device: str
    pool: MemoryPool
    loading: Mapping[str, ModelSpec]
    staying: Mapping[str, ModelSpec]
    leaving: Mapping[str, ModelSpec | None]
    """None if the model is not recorded."""

    @property
    def needed(self) -> int:
        """Bytes that the models to be loaded declare."""
        return sum(spec.memory_on(self.number) for spec in self.loading.values())

    @property
    def kept(self) -> int:
        """Bytes that the models that stay declare."""
        return sum(spec.memory_on(self.number) for spec in self.staying.values())

    def free_after_unload(self) -> int | None:
        """Bytes that the models to be loaded can use once the leaving ones are unloaded; None if not known."""
        free = self.pool.free
        if free is None or any(spec is None or spec.budget is None for spec in self.leaving.values()):
            return None
        backends = {spec.budget.backend for spec in self.loading.values() if spec.budget}
        for spec in self.leaving.values():
            backend = spec.budget.backend if spec is not None and spec.budget else ""
            if spec is not None and (backend not in KEEPS_MEMORY or backends == {backend}):  # reuses its own
                free += spec.memory_on(self.number)
        return free


def with_restarts(
    changes: Changes,
    desired: Sequence[Desired],
    servers: Mapping[str, ServerStatus],
    observed: ObservedModels,
    context: DiffContext,
) -> dict[Address, Change]:
    """The same changes, with a restart of each server that needs one; loads learn of the unloads before them."""
    result = dict(changes)
    for name, status in servers.items():
        server = Address(context.node, "model", name)
        models = {resource.address: resource for resource in desired if server.covers(resource.address)}
        if status.server is None or status.disturbed or not models:
            continue
        leaving = [change.address.name.partition("/")[2] for change in _unloads(server, changes)]
        result = {a: _after_unloads(c, leaving) if server.covers(a) else c for a, c in result.items()}
        for turnover in _turnovers(server, models, status, observed, changes, context):
            if (change := _restart(server, status, turnover)) is not None:
                root = result.pop(server, None)
                merged = change if root is None else replace(change, reasons=(*root.reasons, *change.reasons))
                result = {server: merged, **_restored_overrides(models, status, result, server), **result}
                break
    return result


def _turnovers(
    server: Address,
    models: Mapping[Address, Desired],
    status: ServerStatus,
    observed: ObservedModels,
    changes: Changes,
    context: DiffContext,
) -> Iterator[DeviceTurnover]:
    """One for each GPU of the server whose memory is known."""
    specs = {address: model_spec(resource.spec) for address, resource in models.items()}
    budget = next((spec.budget for spec in specs.values() if spec.budget), None)
    if budget is None or budget.overcommit or status.server is None:
        return
    ready = {address: bool(status.server.ready(spec.model)) for address, spec in specs.items()}
    loading = {spec.model: spec for address, spec in specs.items() if address in changes and not ready[address]}
    staying = {spec.model: spec for address, spec in specs.items() if ready[address]}
    leaving: dict[str, ModelSpec | None] = {}
    for change in _unloads(server, changes):
        recorded = context.record.resources.get(change.address)
        leaving[change.address.name.partition("/")[2]] = model_spec(recorded.spec) if recorded else None
    for number, device in enumerate(budget.devices):
        pool = observed.memory.of(device, None, context)
        if pool is not None and all(spec.budget for spec in (*loading.values(), *staying.values())):
            yield DeviceTurnover(number, device, pool, loading, staying, leaving)


def _unloads(server: Address, changes: Changes) -> list[Change]:
    """The changes that unload a model, not those that only change the list for the startup."""
    return [
        change
        for address, change in changes.items()
        if server.covers(address) and change.action is Action.DELETE and any(f.path == "state" for f in change.fields)
    ]


def _restart(server: Address, status: ServerStatus, turnover: DeviceTurnover) -> Change | None:
    """The restart of a server's container, if only that frees the memory for the models to be loaded; else None."""
    pool, needed, kept, free = turnover.pool, turnover.needed, turnover.kept, turnover.free_after_unload()
    if status.server is None or free is None or not needed or needed <= free:
        return None
    others = sum(used for container, used in (pool.used or {}).items() if container != status.container_id)
    if needed + kept + others > pool.total:
        return None
    free_after_restart = format_bytes(pool.total - kept - others)
    return Change(
        server,
        Action.UPDATE,
        fields=(FieldChange("memory", f"{format_bytes(free)} free", f"{free_after_restart} free"),),
        reasons=_reasons(turnover, needed, free, (pool.used or {}).get(status.container_id, 0)),
        interrupts=_interrupts(status, status.server, turnover),
        disturbs={server: f"container {status.container.name} is restarted"},
        steps=(restart_server(server, status.container),),
    )


def _reasons(turnover: DeviceTurnover, needed: int, free: int, used: int) -> tuple[str, ...]:
    names, verb = ", ".join(turnover.loading), "needs" if len(turnover.loading) == 1 else "need"
    reasons = [
        f"{names} {verb} {format_bytes(needed)} on {turnover.device}, but only {format_bytes(free)} would be free"
    ]
    leaving = [spec for spec in turnover.leaving.values() if spec is not None]
    declared = turnover.kept + sum(spec.memory_on(turnover.number) for spec in leaving)
    if used > declared + SLACK:
        declares = f"its models declare {format_bytes(declared)}" if declared else "none of its models declares memory"
        reasons.append(f"the server uses {format_bytes(used)}, but {declares}: memory of unloaded models was not freed")
    backends = {spec.budget.backend for spec in leaving if spec.budget}
    reasons.extend(why for backend, why in KEEPS_MEMORY.items() if backend in backends)
    return tuple(reasons)


def _interrupts(status: ServerStatus, server: ModelServer, turnover: DeviceTurnover) -> tuple[str, ...]:
    serving = [model for model in turnover.staying if server.ready(model)]
    verb, pronoun = ("stops", "it is") if len(serving) == 1 else ("stop", "they are")
    which = f": {', '.join(serving)} {verb} serving until {pronoun} loaded again" if serving else ""
    return (f"container {status.container.name} is restarted{which}",)


def _after_unloads(change: Change, leaving: Sequence[str]) -> Change:
    """The loads of a change with the names of what the same change set unloads from the server."""
    if not leaving or change.action is Action.DELETE:
        return change
    steps = list(change.steps)
    for place, step in enumerate(steps):
        payload = payload_of(step)
        if isinstance(payload, LoadModel):
            steps[place] = replace(step, payload=encode(replace(payload, unloaded=tuple(leaving))))
    return replace(change, steps=tuple(steps))


def _restored_overrides(
    models: Mapping[Address, Desired], status: ServerStatus, changes: Changes, server: Address
) -> dict[Address, Change]:
    """A restart loses config overrides: the models that stay are loaded with them again."""
    restored: dict[Address, Change] = {}
    for address, resource in models.items():
        spec = model_spec(resource.spec)
        if address in changes or not spec.overrides:
            continue
        shown = shown_overrides(spec.overrides)
        reason = f"the restart of {status.container.name} loses the config override"
        step = load(resource, spec, Verb.UPDATE)
        field = FieldChange("override", shown, shown)
        restored[address] = Change(address, Action.UPDATE, (field,), (reason,), cause=server, steps=(step,))
    return restored
