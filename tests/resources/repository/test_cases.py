"""What the room says of each case in cases/: adding a case is adding a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.resources.repository.case import CASES, load
from tests.resources.told import told


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_room_says_what_the_case_expects(path: Path) -> None:
    case = load(path)
    assert told(case.compare()) == case.expect, case.about
