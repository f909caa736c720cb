"""What a GPU offers: shapes, places and engines, by the node's own word or, while MIG is off, by the catalog's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from gpuplan.nvidia.boards import Board, find_board
from gpuplan.resources.gpu.read import Gpu, Profile

Place: TypeAlias = tuple[int, int]
"""(start, size) in memory slices."""

RESOURCES = ("compute slices", "video decoders", "video encoders", "JPEG engines", "optical flow engines")
"""What instances share apart from memory slices, in the order of `Shape.demands`."""


@dataclass(frozen=True)
class Shape:
    """What placement needs to know of one profile."""

    name: str
    slices: int
    """Compute slices."""
    instances: int
    """How many the GPU holds at most."""
    placements: tuple[Place, ...]
    engines: tuple[int, ...] = (0, 0, 0, 0)
    """Media engines of one instance: decoders, encoders, JPEG, optical flow."""

    @cached_property
    def size(self) -> int:
        """Memory slices that one instance takes."""
        return max(size for _, size in self.placements)

    @cached_property
    def demands(self) -> tuple[int, ...]:
        """How much of each of `RESOURCES` one instance takes."""
        return (self.slices, *self.engines)


@dataclass(frozen=True)
class Geometry:
    """What a GPU offers."""

    shapes: tuple[Shape, ...]

    @cached_property
    def by_name(self) -> Mapping[str, Shape]:
        """Profile name → shape."""
        return {shape.name: shape for shape in self.shapes}

    @cached_property
    def capacity(self) -> tuple[int, ...]:
        """How much of each of `RESOURCES` the GPU has.

        Nothing reports the totals; but an empty GPU holds as many instances of each profile as the profile says, so it
        has at least that much, and the profile of the whole GPU has all of it.
        """
        return tuple(
            max(shape.demands[number] * shape.instances for shape in self.shapes) for number in range(len(RESOURCES))
        )

    @cached_property
    def memory(self) -> int:
        """Memory slices of the whole GPU."""
        return max(start + size for shape in self.shapes for start, size in shape.placements)


def geometry_of(gpu: Gpu) -> Geometry | None:
    """The geometry of one GPU; None where neither the node nor the catalog knows the places of every profile."""
    board = find_board(gpu.name)
    shapes: list[Shape] = []
    for profile in gpu.profiles:
        places = profile.placements or _cataloged(board, profile)
        if not places:
            return None
        shapes.append(Shape(profile.name, profile.slices, profile.instances, places, profile.engines))
    return Geometry(tuple(shapes)) if shapes else None


def _cataloged(board: Board | None, profile: Profile) -> tuple[Place, ...]:
    known = board.profile(profile.name) if board is not None else None
    same = known is not None and (known.id, known.slices) == (profile.id, profile.slices)
    return known.placements if known is not None and same else ()
