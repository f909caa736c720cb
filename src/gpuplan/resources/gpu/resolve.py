"""Resolve what the plan file leaves to the node: which GPU a selector matches, and which profile a size means."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from gpuplan.nvidia.boards import find_board
from gpuplan.nvidia.mig_names import COMPUTE_SIZES, parse_profile
from gpuplan.resources.gpu.desired import GpuSelector, GpuSpec, SliceSpec, decode_spec
from gpuplan.resources.gpu.observed import (
    MigProfile,
    ObservedGpu,
    ObservedGpus,
    UnreadableGpu,
    cannot_read,
    cannot_read_gpu,
)
from gpuplan.resources.gpu.recorded import recorded_uuid
from gpuplan.types.address import Address
from gpuplan.types.change import Unreadable
from gpuplan.types.diagnostic import Diagnostic, Location
from gpuplan.types.record import Record
from gpuplan.types.resource import Desired
from gpuplan.types.text import join_words

_PCI = re.compile(r"^(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-9a-f]))?$")
_PROFILE_PARTS = re.compile(r"^(?:\d+c\.)?(\d+)g(?:\.(\d+)gb)?(.*)$")
_MIB = 1024 * 1024


@dataclass(frozen=True)
class LogicalGpu:
    """One GPU of the plan file with the physical GPU that it is."""

    address: Address
    """That of the resource, or ``NAME[i]`` for each GPU of a resource that selects all."""
    resource: Address
    spec: GpuSpec
    gpu: ObservedGpu

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.address.name

    @property
    def prefix(self) -> str:
        """What tells the GPUs of one resource apart in the names of fields and steps: ``[0].`` or nothing."""
        return f"{self.name.removeprefix(self.resource.name)}." if self.address != self.resource else ""

    def part(self, slice_name: str) -> Address:
        """The address of one of its slices."""
        return self.address.part(slice_name)

    def slice_title(self, slice_name: str) -> str:
        """A slice's name in a title: with its GPU if the resource has several."""
        return slice_name if self.address == self.resource else f"{self.name}/{slice_name}"


@dataclass
class Resolution:
    """The outcome of all selectors of one node."""

    gpus: list[LogicalGpu] = field(default_factory=list)
    unknown: list[Unreadable] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def resolve_gpus(desired: Sequence[Desired], observed: ObservedGpus, record: Record) -> Resolution:
    """Find the GPU of each desired resource; a GPU that two resources select is given to neither."""
    resolution = Resolution()
    for resource in desired:
        spec = decode_spec(resource.spec)
        if observed.error is not None:
            resolution.unknown.append(Unreadable(resource.address, cannot_read(resource.address, observed.error)))
        elif spec.select.key == "all":
            _resolve_all(resource, spec, observed, record, resolution)
        else:
            _resolve_one(resource, spec, observed, record, resolution)
    _refuse_shared_gpus(resolution, desired)
    return resolution


def _resolve_all(
    resource: Desired, spec: GpuSpec, observed: ObservedGpus, record: Record, resolution: Resolution
) -> None:
    """NAME[0], NAME[1] … by index; but a GPU keeps the number that it had at the last apply."""
    listed: list[tuple[int, ObservedGpu | None]] = [(gpu.index, gpu) for gpu in observed.gpus]
    listed += [(gpu.index, None) for gpu in observed.unreadable]
    node, name = resource.address.node, resource.address.name
    addresses = [Address(node, "gpu", f"{name}[{number}]") for number in range(len(listed))]
    kept = {uuid: address for address in addresses if (uuid := recorded_uuid(record, address)) and observed.gpu(uuid)}
    free = [address for address in addresses if address not in kept.values()]
    for _, gpu in sorted(listed, key=lambda entry: entry[0]):
        address = kept[gpu.uuid] if gpu is not None and gpu.uuid in kept else free.pop(0)
        if gpu is not None:
            resolution.gpus.append(LogicalGpu(address, resource.address, spec, gpu))
    resolution.unknown.extend(_unreadable(resource, gpu) for gpu in observed.unreadable)
    if not listed:
        resolution.diagnostics.append(_no_match(resource, spec.select, observed))


def _resolve_one(
    resource: Desired, spec: GpuSpec, observed: ObservedGpus, record: Record, resolution: Resolution
) -> None:
    select = spec.select
    matches = [gpu for gpu in observed.gpus if _matches(gpu, select)]
    if select.key == "index":
        matches = _same_as_recorded(resource, select, observed, record) or matches
    unreadable = [gpu for gpu in observed.unreadable if select == GpuSelector("index", gpu.index)]
    if len(matches) == 1:
        resolution.gpus.append(LogicalGpu(resource.address, resource.address, spec, matches[0]))
    elif unreadable or (not matches and observed.unreadable):
        resolution.unknown.append(_unreadable(resource, (unreadable or observed.unreadable)[0]))
    elif matches:
        resolution.diagnostics.append(_several_match(resource, select, matches))
    else:
        resolution.diagnostics.append(_no_match(resource, select, observed))


def _unreadable(resource: Desired, gpu: UnreadableGpu) -> Unreadable:
    return Unreadable(resource.address, cannot_read_gpu(resource.address, gpu))


def _same_as_recorded(
    resource: Desired, select: GpuSelector, observed: ObservedGpus, record: Record
) -> list[ObservedGpu]:
    """The GPU that this index was at the last apply, whatever its index is now: a reboot may change NVML's order."""
    recorded = record.resources.get(resource.address)
    if recorded is None or decode_spec(recorded.spec).select != select:
        return []
    gpu = observed.gpu(recorded_uuid(record, resource.address) or "")
    return [gpu] if gpu is not None else []


def _matches(gpu: ObservedGpu, select: GpuSelector) -> bool:
    if select.key == "index":
        return gpu.index == select.value
    text = str(select.value).strip().casefold()
    if select.key == "uuid":
        return gpu.uuid.casefold() == text
    if select.key == "pci":
        return _pci(gpu.pci) == _pci(text) is not None
    board = find_board(text)
    return text in gpu.name.casefold() or (board is not None and board is find_board(gpu.name))


def _pci(text: str) -> tuple[int, ...] | None:
    """Domain, bus, device and function; ``0000:07:00.0`` and NVML's ``00000000:07:00.0`` are the same."""
    match = _PCI.match(text.strip().casefold())
    return tuple(int(part or "0", 16) for part in match.groups()) if match else None


def _refuse_shared_gpus(resolution: Resolution, desired: Sequence[Desired]) -> None:
    where = {resource.address: resource.where for resource in desired}
    by_uuid: dict[str, list[LogicalGpu]] = {}
    for logical in resolution.gpus:
        by_uuid.setdefault(logical.gpu.uuid, []).append(logical)
    for first, *others in by_uuid.values():
        for other in others:
            resolution.diagnostics.append(_shared(first, other, where.get(other.resource)))
        if others:
            resolution.gpus = [logical for logical in resolution.gpus if logical.gpu.uuid != first.gpu.uuid]


def _shared(first: LogicalGpu, other: LogicalGpu, where: Location | None) -> Diagnostic:
    return Diagnostic(
        "Two names for one GPU",
        f"{first.name} and {other.name} both select the GPU {first.gpu.uuid} of {first.address.node}.",
        "Let each select another GPU, or write them as one.",
        where,
        str(other.resource),
    )


def _no_match(resource: Desired, select: GpuSelector, observed: ObservedGpus) -> Diagnostic:
    gpus = join_words(f"{gpu.index}: {gpu.name} ({gpu.uuid}, {gpu.pci})" for gpu in observed.gpus)
    return Diagnostic(
        "No such GPU",
        f"{observed.node} has no GPU with {select}. Its GPUs: {gpus}.",
        "Correct the selector in the plan file, or check why the GPU is missing (nvidia-smi -L on the node).",
        resource.where,
        str(resource.address),
    )


def _several_match(resource: Desired, select: GpuSelector, matches: Sequence[ObservedGpu]) -> Diagnostic:
    gpus = join_words(f"{gpu.index} ({gpu.name}, {gpu.uuid})" for gpu in matches)
    return Diagnostic(
        "A selector matches more than one GPU",
        f"{select} matches {gpus}.",
        "Select by index, uuid or pci, or write select: all.",
        resource.where,
        str(resource.address),
    )


def resolve_profiles(logical: LogicalGpu, where: Location | None) -> tuple[LogicalGpu, Sequence[Diagnostic]]:
    """The same GPU with its slices under the profile names that it reports, and which slices it cannot have."""
    slices: list[SliceSpec] = []
    problems: list[Diagnostic] = []
    if not logical.spec.slices or not logical.gpu.mig_supported:
        return logical, problems
    for desired in logical.spec.slices:
        profile = _find_profile(desired, logical.gpu)
        if profile is None:
            problems.append(_unknown_profile(logical, desired, where))
            slices.append(desired)
            continue
        compute = _compute_sizes(desired, profile)
        slices.append(replace(desired, profile=profile.name, memory=None, compute=compute))
        problems.extend(_compute_problems(logical, slices[-1], profile, where))
    return replace(logical, spec=replace(logical.spec, mig=tuple(slices))), problems


def _find_profile(desired: SliceSpec, gpu: ObservedGpu) -> MigProfile | None:
    """By memory: the smallest plain one that has it. By slices alone (`2g+me`): the least memory of that suffix."""
    if desired.memory is not None:
        plain = [profile for profile in gpu.profiles if not _suffix(profile)]
        large = [profile for profile in plain if profile.memory_mib * _MIB >= desired.memory]
        return min(large, key=lambda profile: (profile.memory_mib, profile.slices, profile.name), default=None)
    parts = parse_profile(desired.profile)
    if parts is None or parts.instance:
        return gpu.profile(parts.instance if parts is not None else desired.profile)
    sized = [profile for profile in gpu.profiles if (profile.slices, _suffix(profile)) == (parts.slices, parts.suffix)]
    return min(sized, key=lambda profile: (profile.memory_mib, profile.name), default=None)


def _suffix(profile: MigProfile) -> str:
    parts = parse_profile(profile.name)
    return parts.suffix if parts is not None else profile.name


def _compute_sizes(desired: SliceSpec, profile: MigProfile) -> tuple[int, ...]:
    """Compute slices of each compute instance; empty if one fills the slice."""
    parts = parse_profile(desired.profile)
    stated = desired.compute or ((parts.compute,) if parts is not None and parts.compute is not None else ())
    return () if stated == (profile.slices,) else stated


def _compute_problems(
    logical: LogicalGpu, desired: SliceSpec, profile: MigProfile, where: Location | None
) -> Iterator[Diagnostic]:
    total = sum(desired.compute)
    if total > profile.slices:
        yield Diagnostic(
            "Compute instances do not fit into their slice",
            f"The compute instances of the slice {desired.name} of {logical.name} need {total} compute slices;"
            f" {profile.name} has {profile.slices}.",
            "Write fewer or smaller compute instances, or a larger profile.",
            where,
            str(logical.address),
        )
    valid = join_words(f"{size}c" for size in COMPUTE_SIZES if size <= profile.slices)
    for size in dict.fromkeys(size for size in desired.compute if size not in COMPUTE_SIZES):
        yield Diagnostic(
            "No compute instance has this size",
            f"The slice {desired.name} of {logical.name} has a compute instance of {size} slices.",
            f"Write one of {valid}.",
            where,
            str(logical.address),
        )


def _unknown_profile(logical: LogicalGpu, desired: SliceSpec, where: Location | None) -> Diagnostic:
    """With the profiles that the GPU has, the nearest first."""
    profiles = logical.gpu.profiles
    if desired.memory is not None:
        available = join_words(f"{profile.name} with {profile.memory_mib} MiB" for profile in profiles)
        largest = max((profile.memory_mib for profile in profiles), default=0)
        fix = f"Write at most {largest}MiB, or select a larger GPU."
    else:
        names = sorted((profile.name for profile in profiles), key=lambda name: _distance(desired.profile, name))
        available = join_words(names)
        fix = f"Write {names[0]} or another of these." if names else "Update the driver, or remove mig."
    return Diagnostic(
        "The GPU does not have this profile",
        f"The slice {desired.name} of {logical.name} is {desired.size}, which this {logical.gpu.name} does not have."
        f" Its profiles: {available}.",
        fix,
        where,
        str(logical.address),
    )


def _distance(desired: str, name: str) -> tuple[object, ...]:
    """How far one profile's name is from another's: slices first, then the suffix, then memory."""
    parts, other = (_PROFILE_PARTS.match(text) for text in (desired, name))
    if parts is None or other is None:
        return (True, name)
    slices, memory = (abs(int(parts[i]) - int(other[i])) if parts[i] and other[i] else 0 for i in (1, 2))
    return (False, slices, parts[3] != other[3], memory, name)
