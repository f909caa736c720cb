"""Which physical GPU each logical one is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from gpuplan.nvidia.boards import find_board
from gpuplan.resources.gpu import memory, words
from gpuplan.resources.gpu.desired import GpuSpec, SliceSpec, read_spec
from gpuplan.resources.gpu.read import Gpu, ObservedGpus
from gpuplan.types.address import Address
from gpuplan.types.change import Unreadable
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.record import Record
from gpuplan.types.resource import Desired

_PCI = re.compile(r"^(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-9a-f]))?$")


@dataclass(frozen=True)
class Unit:
    """One logical GPU with the physical one that it is."""

    address: Address
    """That of the resource, or ``NAME[i]`` for each GPU of a resource that selects all."""
    resource: Address
    spec: GpuSpec
    gpu: Gpu

    @property
    def prefix(self) -> str:
        """What goes before a field or step name, to tell the GPUs of one resource apart: ``[0].`` or nothing."""
        return f"{self.address.name.removeprefix(self.resource.name)}." if self.address != self.resource else ""

    def cut(self, slices: tuple[SliceSpec, ...]) -> Unit:
        """The same with its slices as this GPU has them."""
        return replace(self, spec=replace(self.spec, mig=slices)) if isinstance(self.spec.mig, tuple) else self

    def called(self, name: str) -> str:
        """How a slice is called in a title: by its name, and its GPU where the resource has several."""
        return name if self.address == self.resource else f"{self.address.name}/{name}"


@dataclass
class Resolved:
    """The outcome of all selectors of one node."""

    units: list[Unit] = field(default_factory=list)
    unknown: list[Unreadable] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def resolve(desired: Sequence[Desired], observed: ObservedGpus, record: Record) -> Resolved:
    """Find the GPU of every desired resource; a GPU that two of them mean belongs to neither."""
    found = Resolved()
    for each in desired:
        if observed.error is not None:
            found.unknown.append(Unreadable(each.address, words.unread(each.address, observed.error)))
            continue
        stated = read_spec(each.spec)
        if stated.select == "all":
            _all(each, stated, observed, record, found)
        else:
            _one(each, stated, stated.select, observed, record, found)
    _refuse_shared(found, desired)
    return found


def _all(each: Desired, stated: GpuSpec, observed: ObservedGpus, record: Record, found: Resolved) -> None:
    places = sorted([*((gpu.index, gpu) for gpu in observed.gpus), *((lost.index, None) for lost in observed.lost)],
                    key=lambda place: place[0])  # fmt: skip
    units = [Address(each.address.node, "gpu", f"{each.address.name}[{number}]") for number in range(len(places))]
    kept = {uuid: unit for unit in units if (uuid := memory.uuid_of(record, unit)) and observed.gpu(uuid)}
    free = [unit for unit in units if unit not in kept.values()]
    for _, gpu in places:
        unit = kept[gpu.uuid] if gpu is not None and gpu.uuid in kept else free.pop(0)
        if gpu is not None:
            found.units.append(Unit(unit, each.address, stated, gpu))
    found.unknown.extend(Unreadable(each.address, words.lost(each.address, lost)) for lost in observed.lost)
    if not places:
        found.diagnostics.append(words.no_gpu(each, "any GPU", observed))


def _one(
    each: Desired,
    stated: GpuSpec,
    select: tuple[str, str | int],
    observed: ObservedGpus,
    record: Record,
    found: Resolved,
) -> None:
    key, value = select
    lost = next((one for one in observed.lost if key == "index" and one.index == value), None)
    matching = [gpu for gpu in observed.gpus if _matches(gpu, key, value)]
    if key == "index":
        matching = _followed(each, observed, record) or matching
    if len(matching) == 1:
        found.units.append(Unit(each.address, each.address, stated, matching[0]))
    elif lost is not None or (not matching and observed.lost):
        found.unknown.append(Unreadable(each.address, words.lost(each.address, lost or observed.lost[0])))
    elif matching:
        found.diagnostics.append(words.many_gpus(each, f"{key} {value}", matching))
    else:
        found.diagnostics.append(words.no_gpu(each, f"{key} {value}", observed))


def _followed(each: Desired, observed: ObservedGpus, record: Record) -> list[Gpu]:
    """The GPU that this index meant at the last apply, wherever it is now: NVML's order may change with a reboot."""
    recorded = record.resources.get(each.address)
    if recorded is None or recorded.spec.get("select") != each.spec.get("select"):
        return []
    gpu = observed.gpu(memory.uuid_of(record, each.address) or "")
    return [gpu] if gpu is not None else []


def _matches(gpu: Gpu, key: str, value: str | int) -> bool:
    if key == "index":
        return gpu.index == value
    text = str(value).strip().casefold()
    if key == "uuid":
        return gpu.uuid.casefold() == text
    if key == "pci":
        return _pci(gpu.pci) == _pci(text) is not None
    board = find_board(text)
    return text in gpu.name.casefold() or (board is not None and board is find_board(gpu.name))


def _pci(text: str) -> tuple[int, ...] | None:
    """Domain, bus, device and function; ``0000:07:00.0`` and NVML's ``00000000:07:00.0`` are the same."""
    match = _PCI.match(text.strip().casefold())
    return tuple(int(part or "0", 16) for part in match.groups()) if match else None


def _refuse_shared(found: Resolved, desired: Sequence[Desired]) -> None:
    by_gpu: dict[str, list[Unit]] = {}
    for unit in found.units:
        by_gpu.setdefault(unit.gpu.uuid, []).append(unit)
    for sharing in (units for units in by_gpu.values() if len(units) > 1):
        found.diagnostics.extend(_shared(sharing, desired))
        found.units = [unit for unit in found.units if unit not in sharing]


def _shared(sharing: Sequence[Unit], desired: Sequence[Desired]) -> Iterator[Diagnostic]:
    where = {each.address: each.where for each in desired}
    first = sharing[0]
    for other in sharing[1:]:
        yield Diagnostic(
            "Two names for one GPU",
            f"{first.address.name} and {other.address.name} are both the GPU {first.gpu.uuid} of {first.address.node}.",
            "Let each logical GPU select another one, or write both as one.",
            where.get(other.resource),
            str(other.resource),
        )
