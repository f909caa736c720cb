"""From a plan file to configs of mig-parted, with everything that gets lost on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuplan.convert.mig_parted.export.classes import NodeClass, classes
from gpuplan.convert.mig_parted.export.slices import counts_of
from gpuplan.convert.mig_parted.read_files.form import Entry
from gpuplan.nvidia.boards import Board, find_board
from gpuplan.nvidia.device_ids import filters_for
from gpuplan.planfile.schema import Gpu, PlanFile, Select
from gpuplan.types.diagnostic import Diagnostic, Problem, Severity
from gpuplan.types.inventory import Host

_SAID = {"nodes", "select", "mig"}
_NOTHING = "Nothing that mig-parted could say"


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


def configs(plan: PlanFile, hosts: Sequence[Host] | None, board: Board | None = None) -> Exported:
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
    for each in classes(plan, hosts):
        if entries := tuple(part.entry() for part in _joined(each, parts, plan, warnings)):
            found[each.name], known[each.name] = entries, each.hosts
    if not found:
        detail = f"{plan.name} cuts no GPU that mig-parted could name."
        raise Problem([Diagnostic(_NOTHING, detail), *warnings])
    if hosts is None and len(found) > 1:
        warnings.append(_no_inventory(tuple(found)))
    return Exported(found, known, tuple(dict.fromkeys([*_names(plan, parts), *warnings])))


def _part(
    name: str, gpu: Gpu, plan: PlanFile, board: Board | None, warnings: list[Diagnostic], faults: list[Diagnostic]
) -> _Part | None:
    if lost := sorted(gpu.model_fields_set - _SAID):
        detail = f"{', '.join(lost)} of {name}: mig-parted sets nothing but MIG."
        warnings.append(_warning("Settings are left out of the export", detail, plan, name))
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
    detail = f"{name} selects one {model}; its device filter means every such board of a node."
    warnings.append(_warning("The export means more than the plan file", detail, plan, name))
    return _Part(filters_for(known.catalog_name), None, slices)


def _joined(each: NodeClass, parts: Mapping[str, _Part], plan: PlanFile, warnings: list[Diagnostic]) -> Iterator[_Part]:
    """The parts of a class; those that differ only in their index become one, and no two may mean one GPU."""
    mine = {name: parts[name] for name in each.gpus if name in parts}
    mixed = any(part.filters for part in mine.values()) and any(not part.filters for part in mine.values())
    together: dict[tuple[object, ...], _Part] = {}
    for name, part in mine.items():
        if mixed and part.filters:
            detail = f"{name} is selected by model and others of {each.name} by index, which may be the same GPU."
            warnings.append(_warning("A GPU is left out of the export", detail, plan, name, "Select all by index."))
            continue
        key = (part.filters, part.devices is None, None if part.slices is None else frozenset(part.slices.items()))
        former = together.get(key)
        devices = (*(former.devices or ()), *(part.devices or ())) if former else part.devices
        together[key] = _Part(part.filters, None if part.devices is None else devices, part.slices)
    yield from together.values()


def _unselectable(name: str, select: Select, plan: PlanFile) -> Diagnostic:
    why = "its uuid" if select.uuid else "its PCI address" if select.pci else "a model without known device ids"
    detail = f"{name} is selected by {why}; mig-parted knows indices and device ids."
    fix = "Select it by index, or by a model of the catalog."
    return _warning("A GPU is left out of the export", detail, plan, name, fix)


def _names(plan: PlanFile, parts: Mapping[str, _Part]) -> Iterator[Diagnostic]:
    named = [name for name, part in parts.items() if part.slices]
    if named:
        detail = f"The slices of {', '.join(named)} have names in the plan file, and mig-parted only counts profiles."
        fix = "Containers find their slices by name only where gpuplan makes them."
        yield Diagnostic("The names of slices are lost", detail, fix, plan.where("gpus"), severity=Severity.WARNING)


def _no_inventory(names: Sequence[str]) -> Diagnostic:
    return Diagnostic(
        "The classes of nodes are a guess",
        f"Without an inventory nobody knows whether one node is of several of the classes {', '.join(names)}.",
        "Add -i INVENTORY: a node then has one config with all of its GPUs.",
        severity=Severity.WARNING,
    )


def _warning(summary: str, detail: str, plan: PlanFile, gpu: str, fix: str = "") -> Diagnostic:
    return Diagnostic(summary, detail, fix, plan.where("gpus", gpu), severity=Severity.WARNING)
