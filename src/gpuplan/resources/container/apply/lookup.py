"""Lookup: the UUIDs of a container's devices at the moment when it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.snapshot.devices import read_gpus
from gpuplan.resources.snapshot.raw import mapping, mappings, sequence, whole
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import Json, JsonObject


def devices_now(gpus: Mapping[str, Json], address: Address, context: ApplyContext) -> tuple[str, ...]:
    """UUIDs of the parts, where `gpus` has those that were already known when the change set was made.

    A slice is where the gpu room remembers to have put it; the node says which MIG device stands there now.

    Raises:
        Problem: one is not on the node.
    """
    if not gpus:
        return ()
    snapshot = context.look("gpu", "record")
    remembered = mapping(mapping(snapshot.probe("record").value).get("remembered"))
    there = read_gpus(snapshot).uuids
    found: dict[str, str] = {}
    for part, known in gpus.items():
        uuid = str(known or "")
        if uuid not in there:
            uuid = _standing(*_remembered(remembered, address.node, part), snapshot)
        if uuid not in there:
            raise Problem(_gone(part, address))
        found[part] = uuid
    return tuple(found.values())


def _remembered(remembered: JsonObject, node: str, part: str) -> tuple[JsonObject, int]:
    """What is remembered of a GPU or slice, and which compute instance is meant: ``a100-0/b/1`` is number 1 of b."""
    fact = mapping(remembered.get(str(Address(node, "gpu", part))))
    slice_, _, number = part.rpartition("/")
    if fact or not (slice_ and number.isdigit()):
        return fact, 0
    return mapping(remembered.get(str(Address(node, "gpu", slice_)))), int(number)


def _standing(fact: JsonObject, number: int, snapshot: Snapshot) -> str:
    """The device that stands where a slice is remembered to be; the GPU itself where the fact is of a GPU."""
    if "start" not in fact:
        return str(fact.get("uuid") or "")
    for gpu in mappings(mapping(snapshot.probe("gpu").value).get("gpus")):
        if gpu.get("uuid") != fact.get("gpu"):
            continue
        for instance in mappings(gpu.get("instances")):
            if instance.get("profile") == fact.get("profile") and whole(instance.get("start")) == whole(fact["start"]):
                return _compute(instance, sequence(fact.get("computes")), number)
    return ""


def _compute(instance: JsonObject, ids: Sequence[Json], number: int) -> str:
    """The MIG device of a compute instance by the id under which it was made; the first where no ids are remembered."""
    there = {whole(each.get("id")): str(each["uuid"]) for each in mappings(instance.get("compute_instances"))}
    if ids:
        return there.get(whole(ids[number]), "") if number < len(ids) else ""
    return next(iter(there.values()), "") if number == 0 else ""


def _gone(part: str, address: Address) -> Diagnostic:
    return Diagnostic(
        "A GPU or slice of the container is not on the node",
        f"{part} was not found on {address.node} when {address.name} was to be started on it.",
        "Run gpuplan plan again: it shows what became of the slice.",
        address=str(address),
    )
