"""What the node remembers of the slices and GPUs that this plan file made: whose is what."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuplan.resources.gpu.observed import Gpu, Instance, instance_at
from gpuplan.resources.gpu.settings import Settings, observed, read_settings
from gpuplan.types.address import Address
from gpuplan.types.record import Record
from gpuplan.types.value import Json, JsonObject


@dataclass(frozen=True)
class MadeSlice:
    """A slice that was made under this address."""

    part: Address
    gpu: str
    """UUID of the GPU."""
    profile: str
    start: int
    computes: tuple[int, ...] | None = None
    """Ids of its compute instances by number; None where they are not remembered."""

    @property
    def name(self) -> str:
        """The slice's own name."""
        return self.part.name.rpartition("/")[2]


def slice_fact(gpu: str, profile: str, start: int, size: int, computes: Sequence[int] | None = None) -> JsonObject:
    """What is remembered of a slice; `computes` are the ids of its compute instances by number."""
    ids: JsonObject = {} if computes is None else {"computes": list(computes)}
    return {"gpu": gpu, "profile": profile, "start": start, "size": size, **ids}


def gpu_fact(uuid: str, found: Json) -> JsonObject:
    """What is remembered of a GPU: which one it was, and MIG mode and settings as they were before gpuplan came."""
    return {"uuid": uuid, "found": found}


def made_slices(record: Record) -> tuple[MadeSlice, ...]:
    """Every slice that this plan file made on the node; facts of another form are passed over."""
    return tuple(_made(record))


def made_on(record: Record, gpu: Gpu) -> Mapping[int, MadeSlice]:
    """Ids of the live instances of a GPU that this plan file made, with what is remembered of each."""
    found: dict[int, MadeSlice] = {}
    for made in made_slices(record):
        instance = instance_at(gpu, made.profile, made.start) if made.gpu == gpu.uuid else None
        if instance is not None:
            found.setdefault(instance.id, made)
    return found


def gone(record: Record, unit: Address, gpu: Gpu, wanted: Collection[Address]) -> tuple[MadeSlice, ...]:
    """What was made on this logical GPU, stands no more and is not wanted either.

    It has to be forgotten: one day somebody else might make a slice at that place, and it would count as ours.
    """
    return tuple(
        made
        for made in made_slices(record)
        if made.part == unit.part(made.name)
        and made.part not in wanted
        and (made.gpu != gpu.uuid or instance_at(gpu, made.profile, made.start) is None)
    )


def uuid_of(record: Record, unit: Address) -> str | None:
    """The UUID of the GPU that this logical GPU was when something was last made on it."""
    uuid = record.remembered.get(unit, {}).get("uuid")
    return uuid if isinstance(uuid, str) else None


def found_on(record: Record, uuid: str) -> bool | None:
    """Whether MIG mode was on when gpuplan first changed this GPU; None where it never did."""
    found = _found(record, uuid)
    return bool(found["mig"]) if "mig" in found else None


def found_settings(record: Record, uuid: str) -> Settings:
    """The settings of this GPU that gpuplan changed, as they were before; None for those that it never touched."""
    return read_settings(_found(record, uuid))


def as_found(record: Record, gpu: Gpu, wanted: Settings) -> JsonObject:
    """What to remember of a GPU as it was found: MIG mode and each stated setting; what was found first stands."""
    now = observed(gpu).stated
    seen = {name: now[name] for name in wanted.stated if name in now}
    return {"mig": gpu.current, **seen, **_found(record, gpu.uuid)}


def _found(record: Record, uuid: str) -> JsonObject:
    facts = (fact.get("found") for fact in record.remembered.values() if fact.get("uuid") == uuid)
    return next((found for found in facts if isinstance(found, Mapping)), {})


def describe(instance: Instance) -> str:
    """How an instance is called where it has no name of ours, as the last part of an address."""
    return f"{instance.profile}@{instance.start}"


def _made(record: Record) -> Iterator[MadeSlice]:
    for part, fact in record.remembered.items():
        gpu, profile, start = fact.get("gpu"), fact.get("profile"), fact.get("start")
        ours = part.kind == "gpu" and not fact.get("adopted")
        if ours and isinstance(gpu, str) and isinstance(profile, str) and _is_number(start):
            yield MadeSlice(part, gpu, profile, int(str(start)), _computes(fact.get("computes")))


def _computes(stated: Json) -> tuple[int, ...] | None:
    if isinstance(stated, str) or not isinstance(stated, Sequence):
        return None
    return tuple(int(str(each)) for each in stated if _is_number(each))


def _is_number(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
