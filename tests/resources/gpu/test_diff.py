"""Every case file (desired, observed, record → comparison): exactly what the file expects, and the same twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.resources.gpu.support import CASES, as_expected, load

NOTHING: dict[str, Any] = {"changes": {}, "bindings": {}, "unmanaged": [], "unknown": [], "diagnostics": []}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = load(path)
    expected = {**NOTHING, **case.expect}
    expected["changes"] = {
        name: {"reasons": [], "interrupts": [], "disturbs": [], **change}
        for name, change in expected["changes"].items()
    }
    assert as_expected(case.compare()) == expected


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_same_twice(path: Path) -> None:
    case = load(path)
    assert case.compare() == case.compare()


def test_there_are_cases() -> None:
    assert len(CASES) > 20
