"""Whether the models that a server should have loaded fit together into the memory of its GPUs or slices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuplan.resources.model.memory import Memory, Room, size
from gpuplan.resources.model.wanted import Wanted, wanted_from
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.resource import Desired, DiffContext

CUDA = "The server itself takes some more of it: a CUDA context of a few hundred MiB."


def overfull(desired: Sequence[Desired], memory: Memory, context: DiffContext) -> Iterator[Diagnostic]:
    """Each GPU or slice whose server is to load models that declare more memory than it has, with the sum."""
    for container, models in _by_server(desired).items():
        budget = next(iter(models.values())).budget
        if budget is None or budget.overcommit:
            continue
        for number, device in enumerate(budget.devices):
            room = memory.of(device, budget.slices.get(device), context)
            needs = {name: need for name, each in models.items() if (need := needed(each, number))}
            if room is not None and sum(needs.values()) > room.total:
                where = next((each.where for each in desired if _server_of(each) == container), None)
                address = str(Address(context.node, "container", container))
                detail = _sum(container, device, number, room, models, needs)
                yield Diagnostic(
                    "Models do not fit into the memory of their GPU", detail, _fix(room, needs), where, address
                )


def needed(wanted: Wanted, device: int) -> int:
    """Bytes that a model declares to take of one GPU of its server; 0 where it declares nothing."""
    return wanted.budget.on(device, len(wanted.versions)) if wanted.budget else 0


def _by_server(desired: Sequence[Desired]) -> Mapping[str, Mapping[str, Wanted]]:
    """The models that declare their memory, by container."""
    found: dict[str, dict[str, Wanted]] = {}
    for wanted in (wanted_from(each.spec) for each in desired):
        if wanted.budget is not None:
            found.setdefault(wanted.container, {})[wanted.model] = wanted
    return found


def _server_of(desired: Desired) -> str | None:
    return str(desired.spec["container"]) if "budget" in desired.spec else None


def _sum(
    container: str, device: str, number: int, room: Room, models: Mapping[str, Wanted], needs: Mapping[str, int]
) -> str:
    total = size(sum(needs.values()))
    lines = [f"    {name}: {_line(models[name], number)}" for name in needs]
    head = f"The models of {container} declare {total} on {device}, which has {size(room.total)}:"
    return "\n".join([head, *lines, CUDA])


def _line(wanted: Wanted, device: int) -> str:
    budget, versions = wanted.budget, max(1, len(wanted.versions))
    if budget is None:
        return ""
    instances, total = budget.instances(device), size(needed(wanted, device))
    counts = [f"{instances} instances"] * (instances > 1) + [f"{versions} versions"] * (versions > 1)
    return f"{' × '.join([*counts, size(budget.memory)])}{f' = {total}' if counts else ''}"


def _fix(room: Room, needs: Mapping[str, int]) -> str:
    over = size(sum(needs.values()) - room.total)
    return (
        f"Take {over} away: another server for one of them, fewer instances, or a larger slice. Where they never need "
        "it all at once, state triton: { overcommit: true }."
    )
