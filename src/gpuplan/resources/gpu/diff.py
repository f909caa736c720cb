"""Compare the desired and observed GPUs of a node: changes with their steps, bindings, and what cannot be done."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuplan.resources.gpu import recorded
from gpuplan.resources.gpu.changes import GpuChange, PlannedGpu
from gpuplan.resources.gpu.compute_instances import compute_address
from gpuplan.resources.gpu.desired import GpuSelector, GpuSpec, decode_spec
from gpuplan.resources.gpu.modes import Transition, transition_to
from gpuplan.resources.gpu.observed import (
    ComputeInstance,
    ObservedGpu,
    ObservedGpus,
    cannot_read,
    cannot_read_containers,
    cannot_read_gpu,
    cannot_read_other_plans,
)
from gpuplan.resources.gpu.placement.arrange import (
    ExistingSlice,
    SlicePlan,
    arrange,
    destroy_ours,
    existing_slices,
    keep_only,
    match_slices,
)
from gpuplan.resources.gpu.placement.solve import Shortage
from gpuplan.resources.gpu.resolve import LogicalGpu, resolve_gpus, resolve_profiles
from gpuplan.resources.gpu.settings import setting_errors
from gpuplan.resources.gpu.users import users_of_gpu
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, Comparison, Unmanaged, Unreadable
from gpuplan.types.diagnostic import Diagnostic, Location
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import ProbeError
from gpuplan.types.text import join_words
from gpuplan.types.value import KnownAfterApply, digest


@dataclass
class _GpuDiff:
    """Compares GPU after GPU and gathers the results."""

    observed: ObservedGpus
    context: DiffContext
    names: Collection[Address] = ()
    """The addresses of all desired slices of the node."""
    changes: dict[Address, list[GpuChange]] = field(default_factory=dict)
    bindings: dict[Address, str | KnownAfterApply] = field(default_factory=dict)
    unmanaged: list[Unmanaged] = field(default_factory=list)
    unknown: list[Unreadable] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    rests_on: dict[Address, str] = field(default_factory=dict)

    def compare(self, logical: LogicalGpu, where: Location | None) -> None:
        """A GPU that the plan file has."""
        gpu, left = logical.gpu, self.observed.stopped_services.get(logical.gpu.uuid, ())
        self.bindings[logical.address] = gpu.uuid
        if logical.spec.changes_nothing and not left:
            self.rests_on[logical.address] = digest(gpu.uuid)
            return
        if isinstance(gpu.instances, ProbeError):
            self._unknown(logical.address, cannot_read(logical.address, gpu.instances, "slices"))
            return
        logical, profile_errors = resolve_profiles(logical, where)
        existing = existing_slices(gpu, self.observed, self.context.record, self.context.plan)
        self.rests_on[logical.address] = _observed_digest(logical)
        transition = transition_to(gpu, logical.spec.mig_enabled, logical.spec.settings, left)
        plan: SlicePlan | Shortage | None = None
        if errors := [*_errors(logical, where), *profile_errors]:
            self.diagnostics.extend(errors)
        else:
            plan = self._plan_slices(logical, existing, transition)
        if isinstance(plan, Shortage):
            self.diagnostics.append(_does_not_fit(logical, plan, where))
        if isinstance(plan, SlicePlan) and self._add(self._planned(logical, plan, transition)):
            self._bind(logical, plan, created=True)
        else:
            self._bind(logical, keep_only(logical, match_slices(logical, existing, self.names)), created=False)

    def drop(self, address: Address, spec: GpuSpec, claimed: set[str]) -> None:
        """A resource that the plan file no longer has; `claimed` are UUIDs of GPUs that are compared already."""
        for logical_address, uuid in self._recorded_gpus(address, spec).items():
            if self.observed.error is not None:
                self._unknown(address, cannot_read(address, self.observed.error))
                return
            gpu = self.observed.gpu(uuid)
            if gpu is None and self.observed.unreadable:
                self._unknown(address, cannot_read_gpu(address, self.observed.unreadable[0]))
            if gpu is None or uuid in claimed:
                continue
            claimed.add(uuid)
            if isinstance(gpu.instances, ProbeError):
                self._unknown(address, cannot_read(address, gpu.instances, "slices"))
            else:
                self._restore_original(LogicalGpu(logical_address, address, spec, gpu))

    def _restore_original(self, logical: LogicalGpu) -> None:
        """Slices that this plan file made are destroyed; MIG mode and settings are as before the first apply."""
        gpu, record = logical.gpu, self.context.record
        plan = destroy_ours(existing_slices(gpu, self.observed, record, self.context.plan))
        turns_off = gpu.mig_enabled and gpu.mig_pending and recorded.original_mig(record, gpu.uuid) is False
        settings = recorded.original_settings(record, gpu.uuid)
        shared = bool(plan.unmanaged or self.observed.other_plans.slices_on(gpu.uuid))
        if shared:
            # ECC changes only with a reset, which unmanaged slices do not survive.
            settings = {name: value for name, value in settings.items() if name != "ecc"}
        mig, left = False if turns_off and not shared else None, self.observed.stopped_services.get(gpu.uuid, ())
        self.rests_on[logical.address] = _observed_digest(logical)
        self._add(self._planned(logical, plan, transition_to(gpu, mig, settings, left), dropped=True))

    def _planned(
        self, logical: LogicalGpu, plan: SlicePlan, transition: Transition, dropped: bool = False
    ) -> PlannedGpu:
        users = users_of_gpu(self.observed, logical.gpu, self.context.plan, logical.spec.stop_services)
        return PlannedGpu(logical, plan, transition, users, self.context.record, dropped)

    def _plan_slices(
        self, logical: LogicalGpu, existing: Sequence[ExistingSlice], transition: Transition
    ) -> SlicePlan | Shortage:
        record = self.context.record
        if transition.destroys_slices:
            plan = arrange(logical, (), self.names, record)
            return replace(plan, destroy=tuple(existing)) if isinstance(plan, SlicePlan) else plan
        if logical.spec.mig is None:
            return SlicePlan()
        if logical.spec.mig == "disabled":
            return SlicePlan(destroy=tuple(existing))
        return arrange(logical, existing, self.names, record)

    def _add(self, planned: PlannedGpu) -> bool:
        """Add a planned change; False if nothing is changed, since something that it rests on could not be read."""
        address, change = planned.logical.address, planned.change()
        if change.steps and (unreadable := [*self._unreadable(planned)]):
            self.unknown.extend(Unreadable(address, diagnostic) for diagnostic in unreadable)
            return False
        self.unmanaged.extend(planned.conflicts())
        self.unmanaged.extend(planned.other_plan_conflicts(self.observed.other_plans))
        if not planned.dropped:
            self.unmanaged.extend(planned.unmanaged())
        if change.steps:
            self.changes.setdefault(planned.logical.resource, []).append(change)
        return True

    def _unreadable(self, planned: PlannedGpu) -> Iterator[Diagnostic]:
        """Why it cannot be determined what a change of this GPU would affect."""
        observed, plan, transition = self.observed, planned.plan, planned.transition
        address, processes, error = planned.logical.address, planned.logical.gpu.processes, observed.other_plans.error
        considered = (*plan.destroy, *(() if planned.dropped else plan.unmanaged))
        not_ours = any(slice_.made_as is None for slice_ in considered)
        if error is not None and (not_ours or transition.mig is False or transition.destroys_slices):
            yield cannot_read_other_plans(address, error)
        if isinstance(processes, ProbeError):
            yield cannot_read(address, processes, "GPU processes")
        if isinstance(observed.containers, ProbeError):
            yield cannot_read_containers(address, observed.containers)

    def _bind(self, logical: LogicalGpu, plan: SlicePlan, created: bool) -> None:
        """Bind each slice, or each of several compute instances, to the UUID of its MIG device.

        A missing one is bound to a later value only if a change creates it (`created`): else it stays unbound, so that
        nothing is stopped for a device that is not created.
        """
        for desired in logical.spec.slices:
            address, kept = logical.part(desired.name), plan.keep.get(desired.name)
            devices: Sequence[ComputeInstance | None] = [None] * len(desired.compute or (0,))
            if kept is not None:
                devices = kept.plan_compute(desired).matches
            for number, device in enumerate(devices):
                part = compute_address(address, number, len(devices))
                if device is not None:
                    self.bindings[part] = device.uuid
                elif created:
                    self.bindings[part] = KnownAfterApply(f"slice {part.name}")

    def _recorded_gpus(self, address: Address, spec: GpuSpec) -> Mapping[Address, str]:
        """The logical GPUs of a resource that the record has, with the UUID of each."""
        record, several = self.context.record, spec.select.key == "all"
        gpus = [entry for entry in record.remembered if entry == address or (several and _is_one_of(entry, address))]
        return {gpu: uuid for gpu in gpus if (uuid := recorded.recorded_uuid(record, gpu))}

    def _unknown(self, address: Address, diagnostic: Diagnostic) -> None:
        self.unknown.append(Unreadable(address, diagnostic))


def diff(desired: Sequence[Desired], observed: ObservedGpus, context: DiffContext) -> Comparison:
    """Compare; pure."""
    resolution = resolve_gpus(desired, observed, context.record)
    where = {resource.address: resource.where for resource in desired}
    names = {logical.part(slice_.name) for logical in resolution.gpus for slice_ in logical.spec.slices}
    compared = _GpuDiff(observed, context, names)
    compared.unknown, compared.diagnostics = resolution.unknown, resolution.diagnostics
    for logical in resolution.gpus:
        compared.compare(logical, where.get(logical.resource))
    dropped = _GpuDiff(observed, context)
    claimed = {logical.gpu.uuid for logical in resolution.gpus}
    specs = {resource.address: decode_spec(resource.spec) for resource in desired}
    for address, spec in _dropped_resources(specs, context).items():
        dropped.drop(address, spec, claimed)
    return Comparison(
        changes=(*_changes(compared, Action.UPDATE), *_changes(dropped, Action.DELETE)),
        bindings=compared.bindings,
        unmanaged=(*compared.unmanaged, *dropped.unmanaged),
        unknown=(*compared.unknown, *dropped.unknown),
        diagnostics=tuple(compared.diagnostics),
        rests_on={**dropped.rests_on, **compared.rests_on},
    )


def _changes(compared: _GpuDiff, action: Action) -> Iterator[Change]:
    for address, changes in compared.changes.items():
        replaced = action is Action.UPDATE and any(change.replaced for change in changes)
        yield Change(
            address,
            Action.REPLACE if replaced else action,
            fields=tuple(changed for change in changes for changed in change.fields),
            reasons=tuple(reason for change in changes for reason in change.reasons),
            interrupts=tuple(interrupted for change in changes for interrupted in change.interrupts),
            disturbs={part: why for change in changes for part, why in change.disturbs.items()},
            steps=tuple(step for change in changes for step in change.steps),
        )


def _dropped_resources(desired: Mapping[Address, GpuSpec], context: DiffContext) -> Mapping[Address, GpuSpec]:
    """Recorded resources that are not desired, and GPUs on which an apply began that was never finished."""
    record = context.record
    dropped = {
        address: replace(decode_spec(resource.spec), mig=None, settings={})
        for address, resource in record.resources.items()
        if address.kind == "gpu" and address not in desired
    }
    several = [address for address, spec in (*desired.items(), *dropped.items()) if spec.select.key == "all"]
    for address in record.remembered:
        uuid = recorded.recorded_uuid(record, address)
        known = address in desired or address in dropped or any(_is_one_of(address, other) for other in several)
        if uuid is not None and not known:
            dropped[address] = GpuSpec(GpuSelector("uuid", uuid))
    return dropped


def _is_one_of(address: Address, resource: Address) -> bool:
    """``a100[1]`` is one of ``a100``."""
    number = address.name.removeprefix(resource.name)
    same = (address.node, address.kind) == (resource.node, resource.kind)
    return same and number[1:-1].isdigit() and number[0] == "["


def _observed_digest(logical: LogicalGpu) -> str:
    """Digest of what a comparison rests on, without users: they are checked again before each step."""
    gpu: ObservedGpu = logical.gpu
    return digest(
        {
            "uuid": gpu.uuid,
            "mig": [gpu.mig_enabled, gpu.mig_pending],
            "slices": [[found.profile, found.start, found.size, *found.devices] for found in gpu.known_instances],
            **{name: gpu.settings.get(name) for name in logical.spec.settings},
        }
    )


def _errors(logical: LogicalGpu, where: Location | None) -> Iterator[Diagnostic]:
    gpu = logical.gpu
    yield from setting_errors(logical.address, logical.spec.settings, gpu, where)
    if not gpu.mig_supported and logical.spec.mig_enabled:
        yield Diagnostic(
            "The GPU does not support MIG",
            f"The plan file has slices on {logical.name}, an {gpu.name}, which does not support MIG.",
            "Select another GPU, or remove mig.",
            where,
            str(logical.address),
        )


def _does_not_fit(logical: LogicalGpu, shortage: Shortage, where: Location | None) -> Diagnostic:
    fit = "fits" if len(shortage.fitting) == 1 else "fit together"
    fix = (
        f"{join_words(shortage.fitting)} {fit}: remove {join_words(shortage.surplus)}, or write smaller slices."
        if shortage.fitting
        else "Write smaller slices."
    )
    return Diagnostic(
        "The slices do not fit on the GPU",
        f"The slices of {logical.name} do not fit together on one {logical.gpu.name}: {shortage.resource}.",
        shortage.fix or fix,
        where,
        str(logical.address),
    )
