"""The steps that change one GPU, each with a typed payload that has all that apply needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from gpuplan.resources.gpu.compute_instances import ComputePlan, compute_address
from gpuplan.resources.gpu.desired import SliceSpec
from gpuplan.resources.gpu.modes import Requirement, Transition, of_gpu, transition_title
from gpuplan.resources.gpu.observed import ComputeInstance, SettingValue
from gpuplan.resources.gpu.placement.arrange import ExistingSlice, PlacedSlice, SlicePlan
from gpuplan.resources.gpu.recorded import RecordedSlice
from gpuplan.resources.gpu.resolve import LogicalGpu
from gpuplan.resources.gpu.settings import BY_NAME
from gpuplan.resources.typed import decode, encode
from gpuplan.types.address import Address
from gpuplan.types.change import Step, Verb
from gpuplan.types.text import join_words
from gpuplan.types.value import JsonObject


@dataclass(frozen=True, kw_only=True)
class GpuTarget:
    """The GPU of a step, and what the record says of it afterwards."""

    uuid: str
    address: Address
    original: Mapping[str, SettingValue]
    """MIG mode and settings as they were before gpuplan first changed them."""
    forget: bool = False
    """The last step on a GPU that the plan file no longer has: it is removed from the record."""


@dataclass(frozen=True)
class UpdateRecord:
    """Change nothing on the GPU, only the node's record of its slices."""

    target: GpuTarget
    remove: tuple[Address, ...] = ()
    add: tuple[RecordedSlice, ...] = ()


@dataclass(frozen=True)
class DestroySlice:
    """Destroy a GPU instance with its compute instances."""

    target: GpuTarget
    profile: str
    start: int
    instance_id: int
    """As planned: another id at this place is another slice."""
    recorded_as: Address | None
    """The address to remove from the record."""
    allowed_users: tuple[str, ...] = ()
    """Idle users that the plan shows and a guard was lifted for."""


@dataclass(frozen=True)
class CreateSlice:
    """Create a GPU instance with its compute instances."""

    target: GpuTarget
    slice: PlacedSlice
    desired: tuple[SliceSpec, ...]
    """All desired slices of the GPU, if placements have to be solved on the node."""
    restore: tuple[PlacedSlice, ...]
    """The slices that were destroyed before, to be put back if this step fails."""


@dataclass(frozen=True)
class CreateComputeInstances:
    """Create the compute instances that a slice lacks."""

    target: GpuTarget
    address: Address
    """Of the slice."""
    profile: str
    start: int
    sizes: tuple[int, ...]
    """Compute slices of every desired compute instance."""
    recorded_ids: tuple[int, ...]
    adopted: bool
    """The slice itself was not made by this plan file."""


@dataclass(frozen=True)
class DestroyComputeInstance(CreateComputeInstances):
    """Destroy one compute instance of a slice that stays; the other fields are those of its slice."""

    compute_id: int = -1
    allowed_users: tuple[str, ...] = ()


@dataclass(frozen=True)
class SetModes:
    """Set ECC and MIG mode, with the reset that they require."""

    target: GpuTarget
    ecc: bool | None
    reset: Requirement
    mig: bool | None
    mig_requires: Requirement
    stop_services: tuple[str, ...] = ()
    """To be stopped during the reset."""
    allowed_users: tuple[str, ...] = ()


@dataclass(frozen=True)
class StartServices:
    """Start the services that an interrupted apply stopped."""

    target: GpuTarget


@dataclass(frozen=True)
class ApplySettings:
    """Apply settings that take effect without a reset."""

    target: GpuTarget
    settings: Mapping[str, SettingValue]


Payload: TypeAlias = (
    UpdateRecord
    | DestroySlice
    | CreateSlice
    | CreateComputeInstances
    | DestroyComputeInstance
    | SetModes
    | StartServices
    | ApplySettings
)
PAYLOADS: tuple[type[Any], ...] = (
    UpdateRecord, DestroySlice, CreateSlice, CreateComputeInstances, DestroyComputeInstance, SetModes, StartServices,
    ApplySettings,
)  # fmt: skip


@dataclass(frozen=True)
class GpuSteps:
    """Builds the steps of one GPU."""

    logical: LogicalGpu
    original: Mapping[str, SettingValue]
    """MIG mode and settings as they were before gpuplan first changed them."""
    obsolete: tuple[RecordedSlice, ...] = ()
    """Recorded slices that do not exist any more."""
    forget: bool = False
    """The plan file no longer has the GPU: the last step removes it from the record."""
    only_recorded: bool = False
    """No recorded resource stands for it, so that its record needs a step even if nothing else does."""
    replaced: bool = False
    """It is another GPU than at the last apply."""
    users: tuple[str, ...] = ()
    """Unmanaged users of the GPU, for whom the change needs a guard to be lifted."""

    def build(self, plan: SlicePlan, transition: Transition) -> tuple[Step, ...]:
        """Every step from what exists to `plan`."""
        steps = [*self._update_record(plan), *self._destroy_slices(plan), *self._change_modes(transition)]
        steps += [*self._change_compute(plan), *(self._create_slice(placed, plan) for placed in plan.create)]
        if not steps and (self.only_recorded or self.replaced):
            steps.append(self._update_record_only())
        if steps and self.forget:
            last = decode_payload(steps[-1].payload)
            forgetting = replace(last, target=replace(last.target, forget=True))
            steps[-1] = replace(steps[-1], payload=encode_payload(forgetting))
        return tuple(steps)

    @property
    def _target(self) -> GpuTarget:
        return GpuTarget(uuid=self.logical.gpu.uuid, address=self.logical.address, original=self.original)

    def _step(
        self,
        name: str,
        verb: Verb,
        title: str,
        payload: Payload,
        *,
        makes: tuple[Address, ...] = (),
        uses: tuple[Address, ...] = (),
        frees: tuple[Address, ...] = (),
    ) -> Step:
        return Step(
            name=f"{self.logical.prefix}{name}",
            address=self.logical.resource,
            verb=verb,
            title=title,
            payload=encode_payload(payload),
            sequence=self.logical.name if self.logical.prefix else "",
            makes=makes,
            uses=uses,
            frees=frees,
        )

    def _update_record_only(self) -> Step:
        name, payload = self.logical.name, UpdateRecord(self._target)
        if self.only_recorded:
            return self._step("forget", Verb.DELETE, f"remove {name} from the node's record", payload)
        title = f"record that {name} is {self.logical.gpu.uuid}"
        return self._step("remember", Verb.UPDATE, title, payload)

    def _update_record(self, plan: SlicePlan) -> Iterator[Step]:
        """At most one step, for slices under new names and slices that do not exist any more."""
        renamed, uuid = plan.renamed(self.logical), self.logical.gpu.uuid
        old = {name: kept.made_as for name, kept in renamed.items() if kept.made_as}
        removed = (*old.values(), *(recorded.address for recorded in self.obsolete))
        if not removed:
            return
        changes = [f"slice {address.name} is now {name}" for name, address in old.items()]
        changes += [f"slice {recorded.address.name} no longer exists" for recorded in self.obsolete]
        added = []
        for name, kept in renamed.items():
            place = kept.instance
            address = self.logical.part(name)
            added.append(RecordedSlice(address, uuid, place.profile, place.start, place.size, kept.compute_ids))
        yield self._step(
            "remember",
            Verb.UPDATE,
            f"record that {join_words(changes)}",
            UpdateRecord(self._target, removed, tuple(added)),
            makes=tuple(recorded.address for recorded in added),
            frees=removed,
        )

    def _destroy_slices(self, plan: SlicePlan) -> Iterator[Step]:
        created = tuple(placed.address for placed in plan.create if placed.address)
        kept = {self.logical.part(name) for name in plan.keep}
        for slice_ in plan.destroy:
            address, instance = slice_.address(self.logical), slice_.instance
            yield self._step(
                f"destroy-{address.name.rpartition('/')[2]}",
                Verb.DELETE,
                f"destroy slice {slice_.title(self.logical)}",
                DestroySlice(
                    self._target,
                    instance.profile,
                    instance.start,
                    instance.id,
                    recorded_as=None if slice_.made_as in kept else slice_.made_as,
                    allowed_users=slice_.users.others,
                ),
                frees=tuple(dict.fromkeys((address, *created))),
            )

    def _create_slice(self, placed: PlacedSlice, plan: SlicePlan) -> Step:
        restore = tuple(_as_placed(slice_) for slice_ in plan.destroy)
        payload = CreateSlice(self._target, placed, self.logical.spec.slices, restore)
        title = f"create slice {self.logical.slice_title(placed.name)} ({placed})"
        makes = (placed.address,) if placed.address else ()
        return self._step(f"create-{placed.name}", Verb.CREATE, title, payload, makes=makes)

    def _change_modes(self, transition: Transition) -> Iterator[Step]:
        """In order: services left stopped, modes with their reset, then the settings that the reset undoes."""
        gpu = (self.logical.address,)
        if transition.stopped_services:
            title = f"start {join_words(transition.stopped_services)} again (stopped by an earlier apply)"
            yield self._step("services", Verb.UPDATE, title, StartServices(self._target), uses=gpu)
        if transition.interrupts or transition.mig is not None:
            resets = Requirement.RESET in transition.requirements
            payload = SetModes(
                self._target,
                transition.ecc,
                transition.reset,
                transition.mig,
                transition.mig_requires,
                stop_services=self.logical.spec.stop_services if resets else (),
                allowed_users=self.users,
            )
            name, title = "reset" if transition.mig is None else "mode", transition_title(self.logical, transition)
            yield self._step(name, Verb.UPDATE, title, payload, makes=gpu, frees=gpu)
        if transition.settings:
            phrases = join_words(BY_NAME[name].phrase(value) for name, value in transition.settings.items())
            title = f"set {phrases}{of_gpu(self.logical)}"
            yield self._step("settings", Verb.UPDATE, title, ApplySettings(self._target, transition.settings), uses=gpu)

    def _change_compute(self, plan: SlicePlan) -> Iterator[Step]:
        """One step for each compute instance that is destroyed, and one for all that a slice lacks."""
        for name, compute in plan.compute.items():
            kept, missing = plan.keep[name], missing_compute(self.logical, name, compute)
            common = (
                self._target, self.logical.part(name), kept.instance.profile, kept.instance.start, compute.sizes,
                kept.compute_ids or (), kept.made_as is None,
            )  # fmt: skip
            title = f"slice {self.logical.slice_title(name)} ({kept.instance})"
            for gone in compute.destroy:
                address = existing_compute_address(self.logical, name, kept, gone)
                yield self._step(
                    f"destroy-{name}-{gone.id}",
                    Verb.DELETE,
                    f"destroy compute instance {gone.slices}c of {title}",
                    DestroyComputeInstance(*common, gone.id, kept.compute_users[gone.id].others),
                    frees=tuple(dict.fromkeys((address, *missing))),
                )
            if missing:
                what = _missing_phrase(compute, kept.slices)
                created = f"create {what} in {title}"
                payload = CreateComputeInstances(*common)
                yield self._step(f"create-{name}", Verb.CREATE, created, payload, makes=missing)


def missing_compute(logical: LogicalGpu, slice_name: str, compute: ComputePlan) -> tuple[Address, ...]:
    """The addresses of the compute instances that are created in a slice."""
    count = len(compute.sizes)
    return tuple(compute_address(logical.part(slice_name), number, count) for number in compute.missing)


def existing_compute_address(
    logical: LogicalGpu, slice_name: str, kept: ExistingSlice, compute: ComputeInstance
) -> Address:
    """By the number under which it was made, else by its size and id."""
    slice_ = logical.part(slice_name)
    if kept.compute_ids and compute.id in kept.compute_ids:
        return compute_address(slice_, kept.compute_ids.index(compute.id), len(kept.compute_ids))
    only = len(kept.instance.compute_instances) == 1
    return slice_ if only else slice_.part(f"{compute.slices}c@{compute.id}")


def _missing_phrase(compute: ComputePlan, slices: int) -> str:
    if compute.sizes == (slices,):
        return "the compute instance"
    plural = "s" if len(compute.missing) > 1 else ""
    return f"compute instance{plural} {join_words(f'{compute.sizes[number]}c' for number in compute.missing)}"


def _as_placed(slice_: ExistingSlice) -> PlacedSlice:
    instance = slice_.instance
    sizes = tuple(compute.slices for compute in instance.compute_instances)
    return PlacedSlice(slice_.made_as, instance.profile, instance.start, instance.size, sizes)


def encode_payload(payload: Payload) -> JsonObject:
    """The form that is saved in a change set."""
    return {"type": type(payload).__name__, **encode(payload)}


def decode_payload(encoded: JsonObject) -> Payload:
    """The payload behind its saved form."""
    payload_type = next(known for known in PAYLOADS if known.__name__ == encoded["type"])
    payload: Payload = decode(payload_type, {name: value for name, value in encoded.items() if name != "type"})
    return payload
