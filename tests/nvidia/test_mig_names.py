"""Profile names as data (mig_names.yaml), and every name of every board of the catalog."""

from pathlib import Path

import pytest
import yaml

from gpuplan.nvidia.boards import BOARDS
from gpuplan.nvidia.mig_names import MigDeviceName, parse_device_name

CASES = yaml.load((Path(__file__).parent / "mig_names.yaml").read_text("utf-8"), yaml.BaseLoader)


@pytest.mark.parametrize("text", CASES["names"])
def test_a_name_is_taken_apart_and_put_together_again(text: str) -> None:
    stated = CASES["names"][text]
    name = parse_device_name(text)
    numbers = [int(stated[key]) for key in ("compute", "slices", "gigabytes")]
    assert name == MigDeviceName(*numbers, tuple(stated["attributes"]))
    assert str(name) == text
    assert name.instance == stated.get("instance", text)


@pytest.mark.parametrize(("text", "canonical"), CASES["aliases"].items())
def test_a_compute_instance_that_takes_all_goes_without_saying(text: str, canonical: str) -> None:
    assert str(parse_device_name(text)) == canonical


@pytest.mark.parametrize(("text", "why"), CASES["refused"].items())
def test_what_is_no_name_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_device_name(text)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.catalog_name)
def test_every_name_of_the_catalog_is_a_name(board) -> None:  # type: ignore[no-untyped-def]
    for profile in board.profiles:
        name = parse_device_name(profile.name)
        assert (str(name), name.slices) == (profile.name, profile.slices)
