"""The slices of one logical GPU as mig-parted counts them: name of the MIG device → how many."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from gpuplan.convert.mig_parted.read_files.form import MOST
from gpuplan.nvidia.boards import Board, BoardProfile
from gpuplan.nvidia.mig_names import MigDeviceName, parse_device_name
from gpuplan.planfile.schema import Gpu, PlanFile, Slice
from gpuplan.planfile.select import slices_of
from gpuplan.types.diagnostic import Diagnostic, Location, Severity

_MIB = 1 << 20
_SIZE = re.compile(r"(?P<compute>\dc\.)?(?P<slices>\d)g(?P<suffix>[+-].*)?\Z", re.ASCII)
"""A profile by its slices alone: the plain one, or the one with that suffix."""


def counts_of(
    name: str, gpu: Gpu, plan: PlanFile, board: Board | None
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
            faults.append(Diagnostic("The profile of a slice is not known", f"{name}/{part} {fault}.", fix, where))
    if too_many := [each for each, count in counts.items() if count > MOST]:
        detail = f"{name} has more than {MOST} slices {', '.join(too_many)}, and no board holds as many."
        faults.append(Diagnostic("More slices than any GPU holds", detail, "", plan.where("gpus", name, "mig")))
    return counts, faults


def _not_in_the_catalog(part: str, profile: str, board: Board, where: Location) -> Diagnostic:
    """A warning alone: boards of one product name differ, and the node's own word counts, not the catalog's."""
    known = [each.name for each in board.profiles]
    near = get_close_matches(profile, known, n=1)
    return Diagnostic(
        "The catalog does not know the profile",
        f"{part} is {profile}, which is not among the profiles that the catalog has of the {board.catalog_name}.",
        (f"Did you mean {near[0]}? " if near else "") + f"It has {', '.join(known)}.",
        where,
        severity=Severity.WARNING,
    )


def _devices(stated: Slice, board: Board | None) -> Iterator[MigDeviceName]:
    whole = parse_device_name(_full_name(stated, board))
    sizes = [int(each[:-1]) for each in stated.compute] or [whole.compute]
    if sum(sizes) > whole.slices:
        raise ValueError(f"holds compute instances of {sum(sizes)} slices, and {whole.instance} has {whole.slices}")
    yield from (MigDeviceName(size, whole.slices, whole.gigabytes, whole.attributes) for size in sizes)


def _full_name(stated: Slice, board: Board | None) -> str:
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
