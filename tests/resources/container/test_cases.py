"""Every case file: the room says exactly what the file expects, and says it twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.resources.container.case import CASES, load, told

NOTHING: dict[str, Any] = {"changes": {}, "unmanaged": [], "unknown": [], "diagnostics": []}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = load(path)
    expected = {**NOTHING, **case.expect}
    expected["changes"] = {
        name: {"fields": {}, "reasons": [], "interrupts": [], "cause": "", "origin": "", **change}
        for name, change in expected["changes"].items()
    }
    assert told(case) == expected


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_same_twice(path: Path) -> None:
    case = load(path)
    assert case.compare() == case.compare()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_wanted_container_has_a_digest_of_what_was_seen(path: Path) -> None:
    case = load(path)
    comparison = case.compare()
    judged = {each.address for each in case.desired} - {each.address for each in comparison.unknown}
    assert judged <= comparison.rests_on.keys()


def test_there_are_cases() -> None:
    assert len(CASES) > 25
