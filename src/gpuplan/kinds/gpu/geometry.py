"""Where a GPU's profiles can stand: by the node's own word, or the catalog's while MIG is off and NVML says nothing."""

from __future__ import annotations

from gpuplan.catalog.boards import Board, find_board
from gpuplan.kinds.gpu.placement import Geometry, Place, Shape
from gpuplan.kinds.gpu.read import Gpu, Profile


def geometry_of(gpu: Gpu) -> Geometry | None:
    """The geometry of one GPU; None where neither the node nor the catalog knows the places of every profile."""
    board = find_board(gpu.name)
    shapes: list[Shape] = []
    for profile in gpu.profiles:
        places = profile.placements or _cataloged(board, profile)
        if not places:
            return None
        shapes.append(Shape(profile.name, profile.slices, profile.instances, places))
    return Geometry(tuple(shapes)) if shapes else None


def _cataloged(board: Board | None, profile: Profile) -> tuple[Place, ...]:
    known = board.profile(profile.name) if board is not None else None
    same = known is not None and (known.id, known.slices) == (profile.id, profile.slices)
    return known.placements if known is not None and same else ()
