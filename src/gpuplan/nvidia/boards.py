"""Boards with MIG and their geometry, for validation without a node and for the simulator."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class BoardProfile:
    """One GPU instance profile of a board."""

    enum: int
    """Index of NVML_GPU_INSTANCE_PROFILE_*, with which NVML returns the profile."""
    id: int
    """The number that `nvidia-smi mig -lgip` prints and that NVML's create call takes."""
    name: str
    slices: int
    """Compute slices."""
    memory_mib: int
    instances: int
    """The most that the GPU holds."""
    multiprocessors: int
    copy_engines: int
    decoders: int
    encoders: int
    jpeg: int
    ofa: int
    placements: tuple[tuple[int, int], ...]
    """Where it may be placed: (start, size) in memory slices."""


@dataclass(frozen=True)
class Board:
    """One product with MIG. Sources, and what none of them states, are named in mig.json."""

    catalog_name: str
    product_name: str
    """As NVML reports it."""
    aliases: tuple[str, ...]
    """Other product names of the same geometry."""
    memory_mib: int
    compute_capability: str
    architecture: str
    needs_reset_for_mode: bool
    """A change of MIG mode takes effect only with a reset of the GPU."""
    mode_survives_reboot: bool
    max_instances: int
    """Compute slices of the whole GPU, and so the most instances it can hold."""
    profiles: tuple[BoardProfile, ...]
    source: str
    assumed: str
    """Which values of the profiles no source states; empty if all were read from hardware."""

    @property
    def memory_slices(self) -> int:
        """Memory slices of the whole GPU, the unit of placements."""
        return max(start + size for profile in self.profiles for start, size in profile.placements)

    def profile(self, name: str) -> BoardProfile | None:
        """The profile of that name, or None."""
        return next((profile for profile in self.profiles if profile.name == name), None)


@dataclass(frozen=True)
class MigTraits:
    """How the MIG mode of an architecture behaves."""

    architecture: str
    needs_reset_for_mode: bool
    """A change of MIG mode takes effect only with a reset of the GPU."""
    mode_survives_reboot: bool
    """It survives a reset too; slices never do."""


UNKNOWN_TRAITS = MigTraits("", needs_reset_for_mode=True, mode_survives_reboot=False)
"""For an architecture that is not in the catalog: the more cautious value of each."""


@dataclass(frozen=True)
class _Geometry:
    profiles: tuple[BoardProfile, ...]
    source: str
    assumed: str


def find_board(name: str) -> Board | None:
    """The board of a catalog name (A100-SXM4-80GB) or an NVML product name (NVIDIA A100-SXM4-80GB); None if unknown."""
    return _by_name().get(_plain(name))


def traits_of(product_name: str, architecture: str | None) -> MigTraits:
    """How MIG mode behaves on a GPU: by its board, else by the architecture that NVML reports (such as ``hopper``)."""
    board = find_board(product_name)
    return ARCHITECTURES.get(board.architecture if board is not None else architecture or "", UNKNOWN_TRAITS)


def _plain(name: str) -> str:
    return name.strip().casefold().removeprefix("nvidia ")


@cache
def _by_name() -> Mapping[str, Board]:
    return {
        _plain(name): board for board in BOARDS for name in (board.catalog_name, board.product_name, *board.aliases)
    }


def _facts() -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(files("gpuplan.nvidia").joinpath("mig.json").read_text(encoding="utf-8"))
    return facts


def _load(facts: dict[str, Any]) -> tuple[Board, ...]:
    geometries = {name: _geometry(stated) for name, stated in facts["geometries"].items()}
    return tuple(_board(stated, geometries, facts["architectures"]) for stated in facts["boards"])


def _traits(facts: dict[str, Any]) -> Mapping[str, MigTraits]:
    return {
        name: MigTraits(name, stated["needs_reset_for_mode"], stated["mode_survives_reboot"])
        for name, stated in facts["architectures"].items()
    }


def _geometry(stated: dict[str, Any]) -> _Geometry:
    profiles = tuple(
        BoardProfile(**{**profile, "placements": tuple((start, size) for start, size in profile["placements"])})
        for profile in stated["profiles"]
    )
    return _Geometry(profiles, stated["source"], stated["assumed"])


def _board(
    stated: dict[str, Any], geometries: Mapping[str, _Geometry], architectures: Mapping[str, dict[str, Any]]
) -> Board:
    geometry, traits = geometries[stated["geometry"]], architectures[stated["architecture"]]
    return Board(
        catalog_name=stated["catalog_name"],
        product_name=stated["product_name"],
        aliases=tuple(stated["also"]),
        memory_mib=stated["memory_mib"],
        compute_capability=stated["compute_capability"],
        architecture=stated["architecture"],
        needs_reset_for_mode=traits["needs_reset_for_mode"],
        mode_survives_reboot=traits["mode_survives_reboot"],
        max_instances=stated["max_instances"],
        profiles=geometry.profiles,
        source=geometry.source,
        assumed=geometry.assumed,
    )


_FACTS = _facts()
BOARDS: tuple[Board, ...] = _load(_FACTS)
"""Every board of the catalog."""
ARCHITECTURES: Mapping[str, MigTraits] = _traits(_FACTS)
"""Every architecture with MIG, by its name in a snapshot."""

# PCI device ids of boards with MIG, as mig-parted's device filters write them.

_VENDOR = "10DE"
"""NVIDIA's."""
_FORM_FACTOR = re.compile(r"-(SXM\d|PCIE)(?=-|$)")


def boards_of(filtered: str) -> tuple[str, ...]:
    """Catalog names of the boards that a filter such as ``0x20B210DE`` means; empty if the catalog has none.

    A subsystem id behind a colon narrows the filter to one vendor's boards, not to a product.
    """
    number = filtered.partition(":")[0].upper().removeprefix("0X").zfill(8)
    return _boards().get(number[:4], ()) if number[4:] == _VENDOR else ()


def filters_for(board: str) -> tuple[str, ...]:
    """Every filter that may mean a board of this catalog name."""
    return tuple(f"0x{device}{_VENDOR}" for device, boards in _boards().items() if board in boards)


def family(board: str) -> str:
    """The name of a group of nodes with such boards: ``a100-80gb`` of A100-SXM4-80GB."""
    return _FORM_FACTOR.sub("", board).lower()


@cache
def _boards() -> Mapping[str, tuple[str, ...]]:
    stated = json.loads(files("gpuplan.nvidia").joinpath("device_ids.json").read_text(encoding="utf-8"))["boards"]
    return {device: tuple(boards) for device, boards in stated.items()}
