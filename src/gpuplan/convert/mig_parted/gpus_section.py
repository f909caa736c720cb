"""A mig-parted config as the `gpus:` section of a plan file, with what the config cannot say as comments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from gpuplan.convert.mig_parted.file import Entry
from gpuplan.nvidia.boards import boards_of, family
from gpuplan.nvidia.mig_names import MigDeviceName, parse_device_name
from gpuplan.types.diagnostic import Diagnostic, Problem

_PLAIN = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*|\d+g\.\d+gb[A-Za-z0-9.+-]*)\Z", re.ASCII)
_RESERVED = ("true", "false", "null", "y", "n", "yes", "no", "on", "off")
_SEVERAL = Diagnostic(
    "Config is for several boards",
    "Its device filters tell nodes apart by their boards, so one value of --nodes cannot fit all of them.",
    "Omit --nodes, and add the groups of the printed section to the inventory.",
)


def gpus_section(entries: Sequence[Entry], config: str, file: str, nodes: str = "") -> str:
    """The section as YAML. `nodes` is a node, group or glob for all of it; without, filters become groups.

    Raises:
        Problem: `nodes` is given, and the config tells boards apart.
    """
    groups = _groups(entries, nodes)
    rows = [
        f"# The config {json.dumps(config)} of {json.dumps(file)}, a file of mig-parted.",
        "# mig-parted has no names for slices; rename them as you like, containers refer to GPU/SLICE.",
        "gpus:",
    ]
    for entry in entries:
        rows.extend(_entry(entry, groups[_key(entry)]))
    return "\n".join(rows) + "\n"


def _key(entry: Entry) -> frozenset[str]:
    return frozenset(each.upper() for each in entry.filters)


def _groups(entries: Sequence[Entry], nodes: str) -> Mapping[frozenset[str], str]:
    """The nodes of each device filter; two filters never share a group, since one node may match both then."""
    keys = list(dict.fromkeys(map(_key, entries)))
    if nodes:
        if len(keys) > 1:
            raise Problem(_SEVERAL)
        return {keys[0]: nodes}
    named = {key: _families(key) for key in keys}
    names = list(named.values())
    return {key: name if names.count(name) == 1 else _devices(key) for key, name in named.items()}


def _families(key: frozenset[str]) -> str:
    if not key:
        return "all"
    known = {each: boards_of(each) for each in key}
    if not all(known.values()):
        return _devices(key)
    return "-or-".join(sorted({family(board) for boards in known.values() for board in boards}))


def _devices(key: frozenset[str]) -> str:
    return "-or-".join(f"device-{each[2:].replace(':0X', '-')}".lower() for each in sorted(key))


def _entry(entry: Entry, nodes: str) -> Iterator[str]:
    name = "gpu" if nodes == "all" or not _PLAIN.match(nodes) else nodes
    picked = (
        [(name, "all")] if entry.devices == "all" else [(f"{name}-{n}", f"{{ index: {n} }}") for n in entry.devices]
    )
    if entry.filters:
        yield f"  # device-filter {', '.join(entry.filters)}: {_boards(entry)}"
    for logical, select in picked:
        yield f"  {logical}:"
        yield f"    nodes: {_scalar(nodes)}" + ("  # the nodes with these boards" if entry.filters else "")
        yield f"    select: {select}"
        yield from _mig(entry)


def _boards(entry: Entry) -> str:
    known = dict.fromkeys(board for each in entry.filters for board in boards_of(each))
    unknown = [each for each in entry.filters if not boards_of(each)]
    return ", ".join([*known, *(f"{each} is not in the catalog" for each in unknown)])


def _mig(entry: Entry) -> Iterator[str]:
    if not entry.mig_enabled:
        yield "    mig: disabled"
    elif not entry.slices:
        yield "    mig: {}"
    else:
        yield "    mig:"
        for name, stated in _slices(entry.slices):
            yield f"      {name}: {stated}"


def _slices(stated: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """(name, YAML) of each slice; compute instances that share a GPU instance become one slice."""
    counted: dict[str, int] = {}
    shared: dict[str, list[MigDeviceName]] = {}
    for text, count in stated.items():
        profile = parse_device_name(text)
        if profile.whole:
            counted[str(profile)] = counted.get(str(profile), 0) + count
        else:
            shared.setdefault(profile.instance, []).extend([profile] * count)
    for profile_name, count in counted.items():
        written = _scalar(profile_name)
        yield _name(profile_name), written if count == 1 else f"{{ profile: {written}, count: {count} }}"
    for profile_name, parts in shared.items():
        for number, computes in enumerate(_packed(parts)):
            inside = ", ".join(f"{each}c" for each in computes)
            written = f"{{ profile: {_scalar(profile_name)}, compute: [{inside}] }}"
            yield f"{_name(profile_name)}.shared-{number}", written


def _name(profile: str) -> str:
    """A profile's name as the name of a slice, which has no + and no comma."""
    return profile.replace("+", ".").replace(",", ".")


def _packed(parts: Sequence[MigDeviceName]) -> Sequence[Sequence[int]]:
    """Compute instances in as few GPU instances as first-fit needs, the largest first."""
    instances: list[list[int]] = []
    for part in sorted(parts, key=lambda each: -each.compute):
        room = next((each for each in instances if sum(each) + part.compute <= part.slices), None)
        if room is None:
            instances.append(room := [])
        room.append(part.compute)
    return instances


def _scalar(text: str) -> str:
    """Text as YAML: plain where no reader could take it for anything else."""
    return text if _PLAIN.match(text) and text.lower() not in _RESERVED else json.dumps(text)
