"""From a plan file to a mig-parted config file, with a warning for everything that it cannot express."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from gpuplan.convert.mig_parted.file import MOST, Entry
from gpuplan.nvidia.boards import Board, BoardProfile, filters_for, find_board
from gpuplan.nvidia.mig_names import MigDeviceName, parse_device_name
from gpuplan.planfile.expand import on_node, patterns_of, slices_of
from gpuplan.planfile.schema import GpuSection, PlanFile, SelectSection, SliceSection
from gpuplan.types.diagnostic import Diagnostic, Location, Problem, Severity
from gpuplan.types.inventory import Host

_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class NodeClass:
    """Nodes that are alike."""

    name: str
    """Made of the patterns that mean them: a label of a Kubernetes node may hold it."""
    gpus: tuple[str, ...]
    """Names of the logical GPUs, in the order of the plan file."""
    hosts: tuple[str, ...] = ()
    """Their names; empty without an inventory."""


def node_classes(plan: PlanFile, hosts: Sequence[Host] | None) -> tuple[NodeClass, ...]:
    """The classes, in the order of the plan file. Without an inventory, GPUs with the same `nodes` are one class."""
    found: dict[tuple[str, ...], list[str]] = {}
    if hosts is None:
        together: dict[tuple[str, ...], list[str]] = {}
        for name, gpu in plan.gpus.items():
            together.setdefault(patterns_of(gpu.nodes), []).append(name)
        found = {tuple(names): [] for names in together.values()}
    else:
        for host in hosts:
            gpus = tuple(name for name, gpu in plan.gpus.items() if on_node(gpu.nodes, host))
            if gpus:
                found.setdefault(gpus, []).append(host.name)
    taken: list[str] = []
    for gpus in found:
        taken.append(_name(plan, gpus, taken))
    return tuple(NodeClass(name, gpus, tuple(found[gpus])) for name, gpus in zip(taken, found, strict=True))


def _name(plan: PlanFile, gpus: Sequence[str], taken: Sequence[str]) -> str:
    patterns = dict.fromkeys(pattern for name in gpus for pattern in patterns_of(plan.gpus[name].nodes))
    name = _UNNAMEABLE.sub("-", "-and-".join(patterns)).strip("-.") or "nodes"
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return next(each for each in (name, *numbered) if each not in taken)


_MIB = 1 << 20
_SIZE = re.compile(r"(?P<compute>\dc\.)?(?P<slices>\d)g(?P<suffix>[+-].*)?\Z", re.ASCII)
"""A profile by its slices alone: the plain one, or the one with that suffix."""


def counts_of(
    name: str, gpu: GpuSection, plan: PlanFile, board: Board | None
) -> tuple[Mapping[str, int] | None, Sequence[Diagnostic]]:
    """The counts, None where MIG is off; and what is wrong, or looks so.

    `board` is what the GPU is known to be; sizes such as `1g` and `memory: 20GiB` have a name only there.
    """
    if gpu.mig is None or gpu.mig == "disabled":
        return None, ()
    counts: dict[str, int] = {}
    faults: list[Diagnostic] = []
    for part, stated in slices_of(gpu.mig):
        try:
            for device in _devices(stated, board):
                counts[str(device)] = counts.get(str(device), 0) + 1
                if board is not None and board.profile(device.instance) is None:
                    where = plan.where("gpus", name, "mig", part.partition("[")[0])
                    faults.append(_not_in_the_catalog(f"{name}/{part}", device.instance, board, where))
        except ValueError as fault:
            where = plan.where("gpus", name, "mig", part.partition("[")[0])
            fix = "Write the profile as `nvidia-smi mig -lgip` prints it, or name the board: --board A100-SXM4-80GB"
            faults.append(Diagnostic("Unknown profile of a slice", f"{name}/{part} {fault}.", fix, where))
    if too_many := [each for each, count in counts.items() if count > MOST]:
        detail = f"{name} has more than {MOST} slices {', '.join(too_many)}, but no board supports that many."
        faults.append(Diagnostic("Too many slices", detail, "", plan.where("gpus", name, "mig")))
    return counts, faults


def _not_in_the_catalog(part: str, profile: str, board: Board, where: Location) -> Diagnostic:
    """A warning alone: boards of one product name differ, and the node's own word counts, not the catalog's."""
    known = [each.name for each in board.profiles]
    near = get_close_matches(profile, known, n=1)
    return Diagnostic(
        "Profile is not in the catalog",
        f"{part} is {profile}, which is not in the catalog's profiles of the {board.catalog_name}.",
        (f"Did you mean {near[0]}? " if near else "") + f"It has {', '.join(known)}.",
        where,
        severity=Severity.WARNING,
    )


def _devices(stated: SliceSection, board: Board | None) -> Iterator[MigDeviceName]:
    whole = parse_device_name(_full_name(stated, board))
    sizes = [int(each[:-1]) for each in stated.compute] or [whole.compute]
    if sum(sizes) > whole.slices:
        raise ValueError(f"holds compute instances of {sum(sizes)} slices, and {whole.instance} has {whole.slices}")
    yield from (MigDeviceName(size, whole.slices, whole.gigabytes, whole.attributes) for size in sizes)


def _full_name(stated: SliceSection, board: Board | None) -> str:
    size = _SIZE.match(stated.profile) if stated.profile else None
    if stated.profile and size is None:
        return stated.profile
    wish = stated.profile or f"memory: {stated.memory}"
    if board is None:
        raise ValueError(f"has the size {wish!r}, whose name depends on the board")
    if size is not None:
        meant = (int(size["slices"]), size["suffix"] or "")
        fitting = [each for each in board.profiles if (each.slices, _suffix(each)) == meant]
    else:
        fitting = [each for each in board.profiles if each.memory_mib * _MIB >= (stated.memory or 0)]
        fitting = [each for each in fitting if not _suffix(each)]
    if not fitting:
        raise ValueError(f"has the size {wish!r}, which no profile of the {board.catalog_name} has")
    found = min(fitting, key=lambda each: (each.memory_mib, each.slices, each.name)).name
    return f"{size['compute'] or ''}{found}" if size is not None else found


def _suffix(profile: BoardProfile) -> str:
    return profile.name.partition("gb")[2]


_SAID = {"nodes", "select", "mig"}
_NOTHING = "Nothing to export to mig-parted"


@dataclass(frozen=True)
class Exported:
    """The configs by name, the hosts of each where they are known, and what could not be said in them."""

    configs: Mapping[str, tuple[Entry, ...]]
    hosts: Mapping[str, tuple[str, ...]]
    warnings: tuple[Diagnostic, ...]


@dataclass(frozen=True)
class _Part:
    """One logical GPU, or several that are cut alike."""

    filters: tuple[str, ...]
    devices: tuple[int, ...] | None
    """None: all."""
    slices: Mapping[str, int] | None
    """None: MIG is off."""

    def entry(self) -> Entry:
        """As mig-parted has it."""
        return Entry.model_validate(
            {
                "device-filter": self.filters,
                "devices": "all" if self.devices is None else self.devices,
                "mig-enabled": self.slices is not None,
                "mig-devices": dict(self.slices or {}),
            }
        )


def export_configs(plan: PlanFile, hosts: Sequence[Host] | None, board: Board | None = None) -> Exported:
    """One config for each class of nodes; `board` is what GPUs are that are not selected by a model.

    Raises:
        Problem: a slice is stated in a way that only a node can tell the profile of, or nothing is left to say.
    """
    faults: list[Diagnostic] = []
    warnings: list[Diagnostic] = []
    parts: dict[str, _Part] = {}
    for name, gpu in plan.gpus.items():
        part = _part(name, gpu, plan, board, warnings, faults)
        if part is not None:
            parts[name] = part
    if faults:
        raise Problem(faults)
    found: dict[str, tuple[Entry, ...]] = {}
    known: dict[str, tuple[str, ...]] = {}
    for each in node_classes(plan, hosts):
        if entries := tuple(part.entry() for part in _joined(each, parts, plan, warnings)):
            found[each.name], known[each.name] = entries, each.hosts
    if not found:
        detail = f"{plan.name} has no MIG settings that mig-parted can express."
        raise Problem([Diagnostic(_NOTHING, detail), *warnings])
    if hosts is None and len(found) > 1:
        warnings.append(_no_inventory(tuple(found)))
    return Exported(found, known, tuple(dict.fromkeys([*_names(plan, parts), *warnings])))


def _part(
    name: str,
    gpu: GpuSection,
    plan: PlanFile,
    board: Board | None,
    warnings: list[Diagnostic],
    faults: list[Diagnostic],
) -> _Part | None:
    if lost := sorted(gpu.model_fields_set - _SAID):
        detail = f"{', '.join(lost)} of {name}: mig-parted configures only MIG."
        warnings.append(_warning("Settings left out of the export", detail, plan, name))
    if gpu.mig is None:
        return None
    model = gpu.select.model if gpu.select != "all" else None
    known = find_board(model) if model else None
    slices, wrong = counts_of(name, gpu, plan, known or board)
    faults.extend(each for each in wrong if each.severity is Severity.ERROR)
    warnings.extend(each for each in wrong if each.severity is Severity.WARNING)
    if gpu.select == "all":
        return _Part((), None, slices)
    if gpu.select.index is not None:
        return _Part((), (gpu.select.index,), slices)
    if known is None:
        warnings.append(_unselectable(name, gpu.select, plan))
        return None
    detail = f"{name} selects one {model}; its device filter matches every such board of a node."
    warnings.append(_warning("Export matches more GPUs than the plan file", detail, plan, name))
    return _Part(filters_for(known.catalog_name), None, slices)


def _joined(each: NodeClass, parts: Mapping[str, _Part], plan: PlanFile, warnings: list[Diagnostic]) -> Iterator[_Part]:
    """The parts of a class; those that differ only in their index become one, and no two may mean one GPU."""
    mine = {name: parts[name] for name in each.gpus if name in parts}
    mixed = any(part.filters for part in mine.values()) and any(not part.filters for part in mine.values())
    together: dict[tuple[object, ...], _Part] = {}
    for name, part in mine.items():
        if mixed and part.filters:
            detail = f"{name} is selected by model and others of {each.name} by index, which may be the same GPU."
            warnings.append(_warning("GPU left out of the export", detail, plan, name, "Select all by index."))
            continue
        key = (part.filters, part.devices is None, None if part.slices is None else frozenset(part.slices.items()))
        former = together.get(key)
        devices = (*(former.devices or ()), *(part.devices or ())) if former else part.devices
        together[key] = _Part(part.filters, None if part.devices is None else devices, part.slices)
    yield from together.values()


def _unselectable(name: str, select: SelectSection, plan: PlanFile) -> Diagnostic:
    why = "its uuid" if select.uuid else "its PCI address" if select.pci else "a model without known device ids"
    detail = f"{name} is selected by {why}; mig-parted supports only indices and device ids."
    fix = "Select it by index, or by a model of the catalog."
    return _warning("GPU left out of the export", detail, plan, name, fix)


def _names(plan: PlanFile, parts: Mapping[str, _Part]) -> Iterator[Diagnostic]:
    named = [name for name, part in parts.items() if part.slices]
    if named:
        detail = f"The slices of {', '.join(named)} have names in the plan file, but mig-parted only counts profiles."
        fix = "Containers can refer to slices by name only if gpuplan creates them."
        yield Diagnostic("Slice names are lost", detail, fix, plan.where("gpus"), severity=Severity.WARNING)


def _no_inventory(names: Sequence[str]) -> Diagnostic:
    return Diagnostic(
        "Node classes are a guess",
        f"Without an inventory, a node may belong to several of the classes {', '.join(names)}.",
        "Add -i INVENTORY: a node then has one config with all of its GPUs.",
        severity=Severity.WARNING,
    )


def _warning(summary: str, detail: str, plan: PlanFile, gpu: str, fix: str = "") -> Diagnostic:
    return Diagnostic(summary, detail, fix, plan.where("gpus", gpu), severity=Severity.WARNING)


def as_text(plan: str, configs: Mapping[str, Sequence[Entry]], hosts: Mapping[str, Sequence[str]] | None = None) -> str:
    """The whole file."""
    rows = [f"# The MIG slices of gpuplan's plan {json.dumps(plan)}.", "version: v1", "mig-configs:"]
    for name, entries in configs.items():
        if nodes := (hosts or {}).get(name):
            rows.append(f"  # {', '.join(nodes)}")
        rows.append(f"  {json.dumps(name)}:")
        for entry in entries:
            rows.extend(_entry(entry))
    return "\n".join(rows) + "\n"


def _entry(entry: Entry) -> Iterator[str]:
    rows = [f"device-filter: {json.dumps(list(entry.filters))}"] if entry.filters else []
    rows.append(f"devices: {'all' if entry.devices == 'all' else json.dumps(list(entry.devices))}")
    rows.append(f"mig-enabled: {'true' if entry.mig_enabled else 'false'}")
    rows.append("mig-devices:" if entry.slices else "mig-devices: {}")
    rows.extend(f"  {json.dumps(profile)}: {count}" for profile, count in entry.slices.items())
    yield f"    - {rows[0]}"
    yield from (f"      {row}" for row in rows[1:])
