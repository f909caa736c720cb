"""Where a GPU instance fits: memory slices do not overlap; compute slices and media engines are there once."""

from __future__ import annotations

from gpuplan.nvidia.boards import Board, Profile
from gpuplan.simulator.hardware import board_of
from gpuplan.simulator.state import Gpu


def room(gpu: Gpu, profile: Profile, start: int) -> bool:
    """True where an instance of the profile can be made at this placement now."""
    size = dict(profile.placements).get(start)
    if size is None or any(start < one.start + one.size and one.start < start + size for one in gpu.instances):
        return False
    board = board_of(gpu)
    there = _profiles(gpu, board)
    free = zip(_free(board, there), _takes(profile), strict=True)
    return there.count(profile) < profile.instances and all(left >= taken for left, taken in free)


def capacity(gpu: Gpu, profile: Profile) -> int:
    """How many more instances of the profile can be made, if nothing else is made."""
    board = board_of(gpu)
    there = _profiles(gpu, board)
    places = sum(room(gpu, profile, start) for start, _ in profile.placements)
    shares = [left // taken for left, taken in zip(_free(board, there), _takes(profile), strict=True) if taken]
    return min(places, profile.instances - there.count(profile), *shares)


def instance_id(gpu: Gpu, start: int, size: int) -> int:
    """The driver numbers places like a binary tree: the whole GPU is 0, its halves are 1 and 2, and so on."""
    return board_of(gpu).memory_slices // size - 1 + start // size


def _profiles(gpu: Gpu, board: Board) -> list[Profile]:
    return [known for one in gpu.instances for known in board.profiles if known.id == one.profile_id]


def _takes(profile: Profile) -> tuple[int, ...]:
    """Compute slices and media engines of one instance."""
    return profile.slices, profile.decoders, profile.encoders, profile.jpeg, profile.ofa


def _free(board: Board, there: list[Profile]) -> list[int]:
    """What is left of them: of engines the GPU has as many as all instances of any profile take."""
    engines = zip(*([number * each.instances for number in _takes(each)[1:]] for each in board.profiles), strict=True)
    whole = [board.max_instances, *map(max, engines)]
    used = [sum(taken) for taken in zip(*map(_takes, there), strict=True)] or [0] * len(whole)
    return [all_of_it - taken for all_of_it, taken in zip(whole, used, strict=True)]
