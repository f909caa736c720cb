"""Where a GPU instance fits: memory slices do not overlap, compute slices are counted, media engines are given once."""

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
    there = [known for one in gpu.instances for known in board.profiles if known.id == one.profile_id]
    used = sum(known.slices for known in there)
    media = "+me" in profile.name and any("+me" in known.name for known in there)
    return used + profile.slices <= board.max_instances and there.count(profile) < profile.instances and not media


def capacity(gpu: Gpu, profile: Profile) -> int:
    """How many more instances of the profile can be made, if nothing else is made."""
    board = board_of(gpu)
    there = [known for one in gpu.instances for known in board.profiles if known.id == one.profile_id]
    places = sum(room(gpu, profile, start) for start, _ in profile.placements)
    slices = board.max_instances - sum(known.slices for known in there)
    return min(places, profile.instances - there.count(profile), slices // profile.slices)


def instance_id(gpu: Gpu, start: int, size: int) -> int:
    """The driver numbers places like a binary tree: the whole GPU is 0, its halves are 1 and 2, and so on."""
    return board_of(gpu).memory_slices // size - 1 + start // size
