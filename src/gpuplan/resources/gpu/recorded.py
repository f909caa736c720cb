"""What the node's record contains of GPUs: which slices this plan file made, and how each GPU was before it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuplan.resources.gpu.observed import ObservedGpu, SettingValue
from gpuplan.resources.gpu.settings import BY_NAME
from gpuplan.types.address import Address
from gpuplan.types.resource import Record
from gpuplan.types.value import JsonObject


@dataclass(frozen=True)
class RecordedSlice:
    """A slice that was made under this address."""

    address: Address
    gpu: str
    """UUID of the GPU."""
    profile: str
    start: int
    size: int
    compute_ids: tuple[int, ...] | None = None
    """Ids of its compute instances by number; None if they are not recorded."""
    adopted: bool = False
    """It was not made by this plan file, only its compute instances were."""

    @property
    def name(self) -> str:
        """The slice's own name."""
        return self.address.name.rpartition("/")[2]

    def fact(self) -> JsonObject:
        """Its entry in the node's record."""
        ids: JsonObject = {} if self.compute_ids is None else {"computes": list(self.compute_ids)}
        adopted: JsonObject = {"adopted": True} if self.adopted else {}
        return {"gpu": self.gpu, "profile": self.profile, "start": self.start, "size": self.size, **ids, **adopted}


def gpu_fact(uuid: str, original: Mapping[str, SettingValue]) -> JsonObject:
    """A GPU's entry in the record: its UUID, and MIG mode and settings as they were before gpuplan changed them."""
    return {"uuid": uuid, "found": dict(original)}


def made_slices(record: Record) -> tuple[RecordedSlice, ...]:
    """Every slice that this plan file made on the node; entries of another form are ignored."""
    return tuple(_made_slices(record))


def made_on(record: Record, gpu: ObservedGpu) -> Mapping[int, RecordedSlice]:
    """Id of each instance on a GPU that this plan file made → its entry in the record."""
    made: dict[int, RecordedSlice] = {}
    for recorded in made_slices(record):
        instance = gpu.instance_at(recorded.profile, recorded.start) if recorded.gpu == gpu.uuid else None
        if instance is not None:
            made.setdefault(instance.id, recorded)
    return made


def obsolete_slices(
    record: Record, logical_gpu: Address, gpu: ObservedGpu, desired: Collection[Address]
) -> tuple[RecordedSlice, ...]:
    """Slices that were made on this logical GPU, do not exist any more and are not desired either.

    They have to leave the record: else a slice that another user makes at the same place would count as ours.
    """
    return tuple(
        recorded
        for recorded in made_slices(record)
        if recorded.address == logical_gpu.part(recorded.name)
        and recorded.address not in desired
        and (recorded.gpu != gpu.uuid or gpu.instance_at(recorded.profile, recorded.start) is None)
    )


def recorded_uuid(record: Record, logical_gpu: Address) -> str | None:
    """The UUID of the GPU that this logical GPU was at the last apply that changed it."""
    uuid = record.remembered.get(logical_gpu, {}).get("uuid")
    return uuid if isinstance(uuid, str) else None


def original_mig(record: Record, uuid: str) -> bool | None:
    """Whether MIG mode was on before gpuplan first changed this GPU; None if it never did."""
    original = _original(record, uuid)
    return bool(original["mig"]) if "mig" in original else None


def original_settings(record: Record, uuid: str) -> Mapping[str, SettingValue]:
    """The settings of this GPU that gpuplan changed, as they were before."""
    return {name: value for name, value in _original(record, uuid).items() if name in BY_NAME}


def state_before(record: Record, gpu: ObservedGpu, settings: Collection[str]) -> Mapping[str, SettingValue]:
    """MIG mode and these settings of a GPU as they were before gpuplan first changed them."""
    now = {name: gpu.settings[name] for name in settings if name in gpu.settings}
    return {"mig": gpu.mig_enabled, **now, **_original(record, gpu.uuid)}


def _original(record: Record, uuid: str) -> Mapping[str, SettingValue]:
    facts = (fact.get("found") for fact in record.remembered.values() if fact.get("uuid") == uuid)
    original = next((fact for fact in facts if isinstance(fact, Mapping)), {})
    return {name: value for name, value in original.items() if isinstance(value, bool | int | str)}


def _made_slices(record: Record) -> Iterator[RecordedSlice]:
    for address, fact in record.remembered.items():
        gpu, profile, start, size = (fact.get(key) for key in ("gpu", "profile", "start", "size"))
        is_slice = address.kind == "gpu" and isinstance(gpu, str) and isinstance(profile, str)
        if is_slice and isinstance(start, int) and not fact.get("adopted"):
            ids = fact.get("computes")
            known = tuple(id_ for id_ in ids if isinstance(id_, int)) if isinstance(ids, Sequence) else None
            size = size if isinstance(size, int) else 0
            yield RecordedSlice(address, str(gpu), str(profile), start, size, known)
