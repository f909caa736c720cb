"""Arrange the slices of one GPU: which existing slice each desired one is, what is destroyed, and what is created."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuplan.resources.gpu.compute_instances import ComputePlan, plan_compute, with_compute
from gpuplan.resources.gpu.desired import SliceSpec
from gpuplan.resources.gpu.observed import ComputeInstance, GpuInstance, ObservedGpu, ObservedGpus
from gpuplan.resources.gpu.placement.geometry import geometry_of
from gpuplan.resources.gpu.placement.solve import Layout, PlacedInstance, Protection, Shortage, solve
from gpuplan.resources.gpu.recorded import made_on, made_slices
from gpuplan.resources.gpu.resolve import LogicalGpu
from gpuplan.resources.gpu.users import Users, users_of_instance
from gpuplan.types.address import Address
from gpuplan.types.resource import Record
from gpuplan.types.snapshot import ProbeError


@dataclass(frozen=True)
class ExistingSlice:
    """An instance with what decides whether it stays: who made it and who uses it."""

    instance: GpuInstance
    users: Users
    made_as: Address | None
    """The address under which this plan file made it; None for an unmanaged one."""
    slices: int
    """Its compute slices."""
    compute_ids: tuple[int, ...] | None = None
    """Recorded ids of its compute instances by number; None if they are not recorded."""
    compute_users: Mapping[int, Users] = field(default_factory=dict, hash=False)
    """Id of a compute instance → who uses it."""
    adoptable: bool = True
    """Everything that may use it or have made it was read; an unmanaged slice is adopted only then."""
    other_plan: str = ""
    """The other plan file that made it; then it is not ours, even if our record has it."""

    def __str__(self) -> str:
        sizes = [compute.slices for compute in self.instance.compute_instances]
        return f"{self.instance}{with_compute(sizes, self.slices)}"

    @property
    def protection(self) -> Protection:
        """Why to leave it alone."""
        if self.users.others:
            return Protection.BUSY
        if self.made_as is None:
            return Protection.UNMANAGED
        return Protection.SERVING if self.users.managed else Protection.IDLE

    def address(self, logical: LogicalGpu) -> Address:
        """Its own address, or the GPU's with profile and start if it is unmanaged."""
        return self.made_as or logical.part(f"{self.instance.profile}@{self.instance.start}")

    def title(self, logical: LogicalGpu) -> str:
        """“cls-a (3g.40gb at 0)”, or “3g.40gb at 0” if it is unmanaged."""
        if self.made_as is None:
            return f"{self.instance} of {logical.name}" if logical.prefix else str(self.instance)
        return f"{logical.slice_title(self.made_as.name.rpartition('/')[2])} ({self.instance})"

    def made_compute(self, compute: ComputeInstance) -> bool:
        """Whether this plan file made the compute instance."""
        return self.made_as is not None and (self.compute_ids is None or compute.id in self.compute_ids)

    def plan_compute(self, desired: SliceSpec) -> ComputePlan:
        """What happens to its compute instances if it is this desired slice."""
        used = [id_ for id_, users in self.compute_users.items() if users.all]
        sizes = desired.compute or (self.slices,)
        return plan_compute(sizes, self.instance.compute_instances, self.compute_ids or (), used)


@dataclass(frozen=True)
class PlacedSlice:
    """A slice to be created; without a start it is placed on the node."""

    address: Address | None
    """None for an unmanaged slice that is put back."""
    profile: str
    start: int | None
    size: int | None
    compute: tuple[int, ...] = ()
    """Compute slices of each compute instance; empty if one fills the slice."""

    @property
    def name(self) -> str:
        """The slice's own name."""
        return self.address.name.rpartition("/")[2] if self.address else ""

    def __str__(self) -> str:
        compute = with_compute(self.compute, 0) if self.compute else ""
        return f"{self.profile}{compute}" if self.start is None else f"{self.profile} at {self.start}{compute}"


@dataclass(frozen=True)
class SlicePlan:
    """What happens to the slices of one GPU."""

    keep: Mapping[str, ExistingSlice] = field(default_factory=dict)
    """Desired slice → the existing one that it is."""
    destroy: tuple[ExistingSlice, ...] = ()
    create: tuple[PlacedSlice, ...] = ()
    unmanaged: tuple[ExistingSlice, ...] = ()
    """Unmanaged slices that stay."""
    compute: Mapping[str, ComputePlan] = field(default_factory=dict)
    """Kept slice → what happens to its compute instances, if they differ."""
    short: str = ""
    """What would be short if everything stayed that this plan file did not make."""

    def renamed(self, logical: LogicalGpu) -> Mapping[str, ExistingSlice]:
        """Slices that stay as they are under another name."""
        return {name: kept for name, kept in self.keep.items() if kept.made_as not in (None, logical.part(name))}


def existing_slices(gpu: ObservedGpu, observed: ObservedGpus, record: Record, plan: str) -> tuple[ExistingSlice, ...]:
    """The slices of a GPU by ascending start; empty if they could not be read."""
    made = made_on(record, gpu)
    sources = (gpu.processes, observed.containers, observed.other_plans.error)
    adoptable = not any(isinstance(source, ProbeError) for source in sources)
    slices: list[ExistingSlice] = []
    for instance in sorted(gpu.known_instances, key=lambda instance: instance.start):
        other_plan = observed.other_plans.owner(gpu.uuid, instance.profile, instance.start)
        recorded, profile = None if other_plan else made.get(instance.id), gpu.profile(instance.profile)
        slices.append(
            ExistingSlice(
                instance,
                users_of_instance(observed, gpu, instance, plan),
                made_as=recorded.address if recorded else None,
                slices=profile.slices if profile else 0,
                compute_ids=recorded.compute_ids if recorded else None,
                compute_users={
                    compute.id: users_of_instance(observed, gpu, instance, plan, compute.id)
                    for compute in instance.compute_instances
                },
                adoptable=adoptable,
                other_plan=other_plan,
            )
        )
    return tuple(slices)


def match_slices(
    logical: LogicalGpu, existing: Sequence[ExistingSlice], names: Collection[Address]
) -> dict[str, ExistingSlice]:
    """Desired slice → the existing one that it is now, whether or not it can stay.

    That is the one made under its name, else a free one of its profile: first of those that this plan file made, then
    by protection, then the lowest start. `names` are the addresses of all desired slices of the node.
    """
    matches = _matches_by_name(logical, existing)
    for desired in logical.spec.slices:
        free = [
            slice_
            for slice_ in existing
            if slice_ not in matches.values() and _is_free(slice_, names) and slice_.instance.profile == desired.profile
        ]
        if desired.name not in matches and free:
            matches[desired.name] = min(
                free, key=lambda slice_: (slice_.made_as is None, -slice_.protection, slice_.instance.start)
            )
    return matches


def arrange(
    logical: LogicalGpu, existing: Sequence[ExistingSlice], names: Collection[Address], record: Record
) -> SlicePlan | Shortage:
    """The cheapest plan from the existing slices to the desired ones.

    A slice that was made under a name which the plan file still has (`names`: all desired slices of the node) can
    become no other slice, and neither can an unmanaged one that is in use. But if the plan file states where a slice
    begins, the existing slice of its profile at that start is that slice.
    """
    geometry = geometry_of(logical.gpu)
    if geometry is None or any(desired.profile not in geometry.by_name for desired in logical.spec.slices):
        return _without_placements(logical, existing, match_slices(logical, existing, names))
    by_name = {slice_.instance.id: name for name, slice_ in _matches_by_name(logical, existing).items()}
    instances = {_for_solver(slice_, by_name.get(slice_.instance.id), names): slice_ for slice_ in existing}
    preferred = [replace(desired, start=_preferred_start(logical, desired, record)) for desired in logical.spec.slices]
    layout = solve(geometry, tuple(instances), preferred)
    if isinstance(layout, Shortage):
        return layout
    return _unplaceable(logical.spec.slices, layout) or _from_layout(logical, instances, layout)


def keep_only(logical: LogicalGpu, keep: Mapping[str, ExistingSlice]) -> SlicePlan:
    """A plan that only keeps slices, with what happens to their compute instances."""
    desired = [slice_ for slice_ in logical.spec.slices if slice_.name in keep]
    compute = {slice_.name: keep[slice_.name].plan_compute(slice_) for slice_ in desired}
    return SlicePlan(keep=keep, compute={name: plan for name, plan in compute.items() if not plan.in_sync})


def destroy_ours(existing: Sequence[ExistingSlice]) -> SlicePlan:
    """For a GPU that the plan file no longer has."""
    return SlicePlan(
        destroy=tuple(slice_ for slice_ in existing if slice_.made_as),
        unmanaged=tuple(slice_ for slice_ in existing if slice_.made_as is None),
    )


def _matches_by_name(logical: LogicalGpu, existing: Sequence[ExistingSlice]) -> dict[str, ExistingSlice]:
    matches = {
        desired.name: _match_by_name(logical.part(desired.name), desired, existing) for desired in logical.spec.slices
    }
    return {name: slice_ for name, slice_ in matches.items() if slice_ is not None}


def _match_by_name(address: Address, desired: SliceSpec, existing: Sequence[ExistingSlice]) -> ExistingSlice | None:
    """The slice made under this name; with a stated start also an unmanaged one there, unless another plan made it."""
    fitting = [slice_ for slice_ in existing if slice_.instance.profile == desired.profile]
    if desired.start is None:
        return next((slice_ for slice_ in fitting if slice_.made_as == address), None)
    fitting = [slice_ for slice_ in fitting if slice_.instance.start == desired.start and not slice_.other_plan]
    return next((slice_ for slice_ in fitting if slice_.made_as in (address, None)), None)


def _is_free(slice_: ExistingSlice, names: Collection[Address]) -> bool:
    if slice_.made_as is not None:
        return slice_.made_as not in names
    return slice_.adoptable and not slice_.other_plan and not slice_.users.others


def _for_solver(slice_: ExistingSlice, name: str | None, names: Collection[Address]) -> PlacedInstance:
    instance = slice_.instance
    return PlacedInstance(
        instance.profile,
        instance.start,
        instance.size,
        slice_.protection,
        name=name,
        free=name is None and _is_free(slice_, names),
        obsolete=slice_.made_as is not None and name is None,
    )


def _preferred_start(logical: LogicalGpu, desired: SliceSpec, record: Record) -> int | None:
    """As the plan file states, else where the slice was before."""
    if desired.start is not None:
        return desired.start
    same = [made for made in made_slices(record) if made.address == logical.part(desired.name)]
    return next((made.start for made in same if made.profile == desired.profile), None)


def _unplaceable(desired: Sequence[SliceSpec], layout: Layout) -> Shortage | None:
    """Slices that cannot begin where the plan file states."""
    elsewhere = [
        slice_
        for slice_ in desired
        if slice_.start is not None and slice_.name in layout.create and layout.create[slice_.name][0] != slice_.start
    ]
    if not elsewhere:
        return None
    reasons = ", ".join(f"no placement for {slice_.profile} at {slice_.start}" for slice_ in elsewhere)
    names = {slice_.name for slice_ in elsewhere}
    fix = "Write a start that `nvidia-smi mig -lgipp` prints for the profile, or remove start."
    fitting = tuple(slice_.name for slice_ in desired if slice_.name not in names)
    return Shortage(reasons, fitting, tuple(sorted(names)), fix)


def _from_layout(logical: LogicalGpu, instances: Mapping[PlacedInstance, ExistingSlice], layout: Layout) -> SlicePlan:
    desired = logical.spec.slices
    keep = {slice_.name: instances[layout.keep[slice_.name]] for slice_ in desired if slice_.name in layout.keep}
    destroy = tuple(instances[placed] for placed in sorted(layout.destroy, key=lambda placed: placed.start))
    return replace(
        keep_only(logical, keep),
        destroy=destroy,
        create=tuple(
            PlacedSlice(logical.part(slice_.name), slice_.profile, *layout.create[slice_.name], slice_.compute)
            for slice_ in desired
            if slice_.name in layout.create
        ),
        unmanaged=tuple(
            slice_ for slice_ in instances.values() if slice_ not in destroy and slice_ not in keep.values()
        ),
        short=layout.short,
    )


def _without_placements(
    logical: LogicalGpu, existing: Sequence[ExistingSlice], matches: Mapping[str, ExistingSlice]
) -> SlicePlan:
    """While MIG is off on a board that the catalog does not have: the node's table decides when slices are created."""
    rest = destroy_ours([slice_ for slice_ in existing if slice_ not in matches.values()])
    return replace(
        rest,
        keep=matches,
        create=tuple(
            PlacedSlice(logical.part(slice_.name), slice_.profile, None, None, slice_.compute)
            for slice_ in logical.spec.slices
            if slice_.name not in matches
        ),
        compute=keep_only(logical, matches).compute,
    )
