"""Device ids lead to boards of the catalog and back."""

import pytest

from gpuplan.nvidia.boards import BOARDS, boards_of, family, filters_for, find_board


@pytest.mark.parametrize("board", [each.catalog_name for each in BOARDS])
def test_every_board_has_a_filter_that_means_it(board: str) -> None:
    assert filters_for(board)
    for filtered in filters_for(board):
        assert board in boards_of(filtered)
        assert all(find_board(each) for each in boards_of(filtered))


@pytest.mark.parametrize("text", ["0x20B210DE", "0x20b210de", "0X20B210DE", "0x20B210DE:0x146310DE"])
def test_a_filter_is_read_however_it_is_written(text: str) -> None:
    assert boards_of(text) == ("A100-SXM4-80GB",)


@pytest.mark.parametrize("text", ["0x20B28086", "0xFFFF10DE", "0x10DE", "nonsense", ""])
def test_what_the_catalog_does_not_know_is_no_board(text: str) -> None:
    assert boards_of(text) == ()


def test_a_family_is_the_name_without_the_form_factor() -> None:
    assert [family(each) for each in ("A100-SXM4-80GB", "A100-PCIE-80GB", "H100-NVL-94GB", "B200")] == [
        "a100-80gb",
        "a100-80gb",
        "h100-nvl-94gb",
        "b200",
    ]
