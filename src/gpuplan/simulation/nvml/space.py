"""Where a GPU instance fits: memory slices may not overlap, and compute slices are counted."""

from __future__ import annotations

from gpuplan.catalog.boards import Profile
from gpuplan.simulation.hardware import board_of
from gpuplan.simulation.state import Gpu


def room(gpu: Gpu, profile: Profile, start: int) -> bool:
    """True where an instance of the profile can be made at this placement now."""
    size = dict(profile.placements).get(start)
    if size is None or any(start < one.start + one.size and one.start < start + size for one in gpu.instances):
        return False
    board = board_of(gpu)
    slices = {known.id: known.slices for known in board.profiles}
    used = sum(slices[one.profile_id] for one in gpu.instances)
    same = sum(one.profile_id == profile.id for one in gpu.instances)
    return used + profile.slices <= board.max_instances and same < profile.instances
