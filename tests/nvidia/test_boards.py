"""The catalog of boards: every profile can stand alone, counts hold, names follow NVIDIA's rule."""

import itertools
import math

import pytest

from gpuplan.nvidia.boards import BOARDS, Board, BoardProfile, find_board

EVERY = [(board, profile) for board in BOARDS for profile in board.profiles]
NAMES = [f"{board.catalog_name}/{profile.name}" for board, profile in EVERY]
SUFFIXES = {7: "+me", 8: "+me", 10: "+gfx", 11: "+gfx", 12: "+gfx", 13: "-me", 14: "-me", 15: "+me.all", 16: "+me.all"}


def ruled_name(board: Board, profile: BoardProfile) -> str:
    """The name by go-nvlib's rule, which rounds half up (Python's round() would not)."""
    eighths = math.ceil(profile.memory_mib / board.memory_mib * 8) / 8
    gigabytes = math.floor(eighths * math.ceil(board.memory_mib / 1024) + 0.5)
    return f"{profile.slices}g.{gigabytes}gb{SUFFIXES.get(profile.enum, '')}"


def most_alone(profile: BoardProfile) -> int:
    """How many of one profile fit side by side by placement alone."""
    for count in range(len(profile.placements), 0, -1):
        for chosen in itertools.combinations(sorted(profile.placements), count):
            if all(a[0] + a[1] <= b[0] for a, b in itertools.pairwise(chosen)):
                return count
    return 0


@pytest.mark.parametrize(("board", "profile"), EVERY, ids=NAMES)
def test_every_profile_can_be_placed_alone(board: Board, profile: BoardProfile) -> None:
    assert profile.placements
    assert all(start >= 0 and start + size <= board.memory_slices for start, size in profile.placements)
    assert profile.slices <= board.max_instances


@pytest.mark.parametrize(("board", "profile"), EVERY, ids=NAMES)
def test_counts_hold(board: Board, profile: BoardProfile) -> None:
    reachable = min(most_alone(profile), board.max_instances // profile.slices)
    if profile.name.endswith(("+me", "+me.all")):
        assert profile.instances == 1  # one instance has the media engines
    else:
        assert profile.instances == reachable


@pytest.mark.parametrize(("board", "profile"), EVERY, ids=NAMES)
def test_names_follow_the_naming_rule(board: Board, profile: BoardProfile) -> None:
    assert profile.name == ruled_name(board, profile)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.catalog_name)
def test_a_board_is_told_apart_by_name_id_and_enum(board: Board) -> None:
    for key in ("name", "id", "enum"):
        values = [getattr(profile, key) for profile in board.profiles]
        assert len(set(values)) == len(values)
    assert board.source
    whole = max(board.profiles, key=lambda profile: profile.slices)
    assert whole.slices == board.max_instances
    assert whole.placements == ((0, board.memory_slices),)


def test_boards_are_found_by_every_name() -> None:
    for board in BOARDS:
        for name in (board.catalog_name, board.product_name, *board.aliases):
            assert find_board(name) is board
            assert find_board(name.upper()) is board


def test_the_names_that_the_inventory_uses_are_there() -> None:
    wanted = [
        "A100-SXM4-40GB",
        "A100-SXM4-80GB",
        "A100-PCIE-40GB",
        "A100-PCIE-80GB",
        "A30",
        "H100-SXM5-80GB",
        "H100-PCIE-80GB",
        "H100-NVL-94GB",
        "GH200-96GB",
        "H20-96GB",
        "H200-SXM5-141GB",
        "B200",
        "GB200",
        "B300",
        "GB300",
        "RTX-PRO-6000",
    ]
    assert [name for name in wanted if find_board(name) is None] == []


@pytest.mark.parametrize("name", ["", "NVIDIA L40S", "A100", "Tesla V100"])
def test_a_board_that_is_not_there_is_none(name: str) -> None:
    assert find_board(name) is None


def test_a30_stands_on_four_memory_slices() -> None:
    board = find_board("NVIDIA A30")
    assert board is not None
    assert {profile.name: profile.placements for profile in board.profiles} == {
        "1g.6gb": ((0, 1), (1, 1), (2, 1), (3, 1)),
        "1g.6gb+me": ((0, 1), (1, 1), (2, 1), (3, 1)),
        "2g.12gb": ((0, 2), (2, 2)),
        "2g.12gb+me": ((0, 2), (2, 2)),
        "4g.24gb": ((0, 4),),
    }


def test_only_ampere_resets_for_a_mode_and_keeps_it() -> None:
    for board in BOARDS:
        assert board.needs_reset_for_mode == board.mode_survives_reboot == (board.architecture == "ampere")
