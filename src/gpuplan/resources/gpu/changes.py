"""The change of one GPU as the operator reads it: fields, reasons, what it interrupts, and what conflicts with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpuplan.nvidia.boards import traits_of
from gpuplan.resources.gpu import recorded
from gpuplan.resources.gpu.compute_instances import with_compute
from gpuplan.resources.gpu.desired import decode_spec
from gpuplan.resources.gpu.modes import (
    Transition,
    mode_conflicts,
    mode_disturbs,
    mode_fields,
    mode_interrupts,
    mode_reasons,
)
from gpuplan.resources.gpu.observed import ComputeInstance, OtherPlans
from gpuplan.resources.gpu.placement.arrange import ExistingSlice, SlicePlan
from gpuplan.resources.gpu.recorded import RecordedSlice
from gpuplan.resources.gpu.resolve import LogicalGpu
from gpuplan.resources.gpu.steps import GpuSteps, existing_compute_address, missing_compute
from gpuplan.resources.gpu.users import Users
from gpuplan.types.address import Address
from gpuplan.types.change import FieldChange, Step, Unmanaged
from gpuplan.types.diagnostic import join_words
from gpuplan.types.resource import Record


@dataclass(frozen=True)
class GpuChange:
    """The difference of one GPU; a resource that selects all GPUs has several."""

    fields: tuple[FieldChange, ...] = ()
    reasons: tuple[str, ...] = ()
    interrupts: tuple[str, ...] = ()
    disturbs: Mapping[Address, str] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    replaced: bool = False
    """It is another GPU than at the last apply."""


@dataclass(frozen=True)
class PlannedGpu:
    """One GPU with what is planned for it; `changes` describes it."""

    logical: LogicalGpu
    plan: SlicePlan
    transition: Transition
    users: Users
    record: Record
    dropped: bool = False
    """The plan file no longer has the GPU."""

    @property
    def name(self) -> str:
        """The GPU's name in messages."""
        return self.logical.name

    def change(self) -> GpuChange:
        """Everything about going from what exists to the plan; without steps if nothing differs."""
        logical, record, uuid = self.logical, self.record, self.logical.gpu.uuid
        desired = [logical.part(slice_.name) for slice_ in logical.spec.slices]
        obsolete = recorded.obsolete_slices(record, logical.address, logical.gpu, desired)
        old_uuid = recorded.recorded_uuid(record, logical.address)
        replaced = old_uuid is not None and old_uuid != uuid
        steps = GpuSteps(
            logical,
            recorded.state_before(record, logical.gpu, logical.spec.settings),
            obsolete,
            forget=self.dropped,
            only_recorded=self.dropped and logical.address not in record.resources,
            replaced=replaced,
            users=self.users.others,
        ).build(self.plan, self.transition)
        if not steps:
            return GpuChange()
        uuid_field = [FieldChange(f"{logical.prefix}uuid", old_uuid, uuid)] if replaced else []
        disturbs = {logical.address: f"{self.name} is another GPU"} if replaced else {}
        return GpuChange(
            fields=(*uuid_field, *mode_fields(logical, self.transition), *self._slice_fields(obsolete)),
            reasons=(*self._reasons(), *mode_reasons(logical, self.transition)),
            interrupts=(*self._slice_interrupts(), *mode_interrupts(logical, self.transition, self.users)),
            disturbs={**disturbs, **mode_disturbs(logical, self.transition), **self._slice_disturbs()},
            steps=steps,
            replaced=replaced,
        )

    def conflicts(self) -> Iterator[Unmanaged]:
        """Unmanaged slices and users that would have to go, each with the guard that refuses."""
        for slice_ in self.plan.destroy:
            address, target = slice_.address(self.logical), self._needs_place_of(slice_)
            title = f"slice {slice_.title(self.logical)} on {self.name}"
            short = f" (if it stays, {self.name} is short of {self.plan.short})" if self.plan.short else ""
            short = short if target != self.logical.address else ""
            if slice_.made_as is None:
                by = f"made by the plan file {slice_.other_plan}" if slice_.other_plan else "not made by this plan file"
                yield Unmanaged(address, f"{title} was {by}{short}", target, "unmanaged-slice")
            if slice_.users.others:
                what = f"{title} is used by {join_words(slice_.users.others)}{short}"
                yield Unmanaged(address, what, target, "busy-slice")
        yield from self._compute_conflicts()
        yield from mode_conflicts(self.logical, self.transition, self.users)

    def unmanaged(self) -> Iterator[Unmanaged]:
        """Unmanaged slices that may stay."""
        for slice_ in self.plan.unmanaged:
            by = f"the plan file {slice_.other_plan} made" if slice_.other_plan else "this plan file did not make"
            yield Unmanaged(slice_.address(self.logical), f"a slice {slice_.instance} on {self.name} that {by}")

    def other_plan_conflicts(self, other_plans: OtherPlans) -> Iterator[Unmanaged]:
        """Other plan files that need MIG mode, though none of their slices exists now."""
        logical = self.logical
        existing = {slice_.other_plan for slice_ in self.plan.destroy}
        if self.transition.mig is False and not self.transition.only_cancels:
            plans = dict.fromkeys(other.plan for other in other_plans.slices_on(logical.gpu.uuid))
            for plan in (plan for plan in plans if plan not in existing):
                what = f"the plan file {plan} has slices on {self.name} ({logical.gpu.uuid}) too, which need MIG mode"
                yield Unmanaged(logical.address, what, logical.address, "unmanaged-slice")

    def _needs_place_of(self, slice_: ExistingSlice) -> Address:
        """The first new slice that overlaps this one, else the GPU."""
        first, end = slice_.instance.start, slice_.instance.start + slice_.instance.size
        for placed in self.plan.create:
            start, size = placed.start, placed.size
            if start is not None and size is not None and start < end and first < start + size:
                return placed.address or self.logical.address
        return self.logical.address

    def _slice_fields(self, obsolete: tuple[RecordedSlice, ...]) -> Iterator[FieldChange]:
        logical, plan, prefix = self.logical, self.plan, f"{self.logical.prefix}slices."
        for name, kept in plan.renamed(logical).items():
            old = f"{kept.instance}, named {kept.made_as.name if kept.made_as else ''}"
            yield FieldChange(f"{prefix}{name}", old, str(kept.instance))
        for name, compute in plan.compute.items():
            kept = plan.keep[name]
            after = f"{kept.instance}{with_compute(compute.sizes, kept.slices)}"
            yield FieldChange(f"{prefix}{name}", str(kept), after)
        before = {slice_.address(logical).name.rpartition("/")[2]: str(slice_) for slice_ in plan.destroy}
        after_ = {placed.name: str(placed) for placed in plan.create}
        for name in {**before, **after_}:
            if name not in plan.keep:
                yield FieldChange(f"{prefix}{name}", before.get(name), after_.get(name))
        for gone in obsolete:
            yield FieldChange(f"{prefix}{gone.name}", f"{gone.profile} at {gone.start}, no longer exists", None)

    def _reasons(self) -> Iterator[str]:
        logical, record, gpu = self.logical, self.record, self.logical.gpu
        old_uuid = recorded.recorded_uuid(record, logical.address)
        if old_uuid is not None and old_uuid != gpu.uuid:
            resource = record.resources.get(logical.resource)
            same = resource is None or decode_spec(resource.spec).select == logical.spec.select
            what = "the GPU was replaced" if same else "the plan file selects another GPU"
            yield f"{what}: {self.name} was {old_uuid} and is now {gpu.uuid}"
        traits = traits_of(gpu.name, gpu.architecture)
        made = {slice_.address for slice_ in recorded.made_slices(record) if slice_.gpu == gpu.uuid}
        lost_mode = made and traits.architecture and not traits.mode_survives_reboot and not gpu.mig_enabled
        if self.transition.mig and lost_mode:
            yield f"MIG mode does not survive a reboot or a reload of the driver on {traits.architecture}"
        if self.transition.mig is False and logical.spec.mig is None:
            yield "MIG mode was off before this plan file was first applied"
        yield from self._slice_reasons(made)

    def _slice_reasons(self, made: set[Address]) -> Iterator[str]:
        plan = self.plan
        unusable = [name for name in plan.compute if not plan.keep[name].instance.devices]
        if unusable:
            yield f"compute instance missing: no program can use {join_words(unusable)}"
        if plan.short:
            yield f"if everything that this plan file did not make stays, {self.name} is short of {plan.short}"
        destroyed = {slice_.made_as: slice_.instance for slice_ in plan.destroy if slice_.made_as is not None}
        lost = [placed.name for placed in plan.create if placed.address in made - set(destroyed)]
        if lost and not plan.keep and not destroyed:
            yield "none of its slices exists any more; slices never survive a reboot or a reset of the GPU"
        elif lost:
            yield f"{join_words(lost)} no longer exists: destroyed by another user or tool"
        stated = {slice_.name for slice_ in self.logical.spec.slices if slice_.start is not None}
        for placed in plan.create:
            old = destroyed.get(placed.address) if placed.address else None
            if old is not None and old.profile == placed.profile and old.start != placed.start:
                why = "as the plan file states" if placed.name in stated else "to make room"
                yield f"slice {placed.name} moves from {old.start} to {placed.start} {why}"

    def _slice_interrupts(self) -> Iterator[str]:
        for slice_ in self.plan.destroy:
            if slice_.users.all:
                yield f"slice {slice_.title(self.logical)} is destroyed: {join_words(slice_.users.all)}"
        for name, kept, compute in self._destroyed_compute():
            if users := kept.compute_users[compute.id].all:
                title = f"compute instance {compute.slices}c of slice {self.logical.slice_title(name)}"
                yield f"{title} is destroyed: {join_words(users)}"

    def _slice_disturbs(self) -> Mapping[Address, str]:
        """Slices and compute instances that are destroyed or created → why; what uses them has to follow."""
        disturbed: dict[Address, str] = {}
        for slice_ in self.plan.destroy:
            if slice_.made_as is not None:
                disturbed[slice_.made_as] = f"slice {slice_.made_as.name} is destroyed"
        for placed in self.plan.create:
            if placed.address is not None:
                disturbed[placed.address] = f"slice {self.name}/{placed.name} is re-created"
        for name, kept, compute in self._destroyed_compute():
            address = existing_compute_address(self.logical, name, kept, compute)
            disturbed[address] = f"a compute instance of slice {self.name}/{name} is destroyed"
        for name, compute_plan in self.plan.compute.items():
            for address in missing_compute(self.logical, name, compute_plan):
                disturbed[address] = f"slice {self.name}/{name} gets a new compute instance"
        return disturbed

    def _compute_conflicts(self) -> Iterator[Unmanaged]:
        for name, kept, compute in self._destroyed_compute():
            address, target = existing_compute_address(self.logical, name, kept, compute), self.logical.part(name)
            title = f"compute instance {compute.slices}c of slice {kept.title(self.logical)} on {self.name}"
            if not kept.made_compute(compute):
                yield Unmanaged(address, f"{title} was not made by this plan file", target, "unmanaged-slice")
            if others := kept.compute_users[compute.id].others:
                yield Unmanaged(address, f"{title} is used by {join_words(others)}", target, "busy-slice")

    def _destroyed_compute(self) -> Iterator[tuple[str, ExistingSlice, ComputeInstance]]:
        for name, compute_plan in self.plan.compute.items():
            yield from ((name, self.plan.keep[name], compute) for compute in compute_plan.destroy)
