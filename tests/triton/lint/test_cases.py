"""What the checks say of small repositories."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuplan.triton.lint import CHECKS
from tests.triton.lint.case import LOADS, REFUSES, Case, cases, outcome, told

ALL = cases()


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_a_repository_is_told_as_the_case_expects(case: Case, tmp_path: Path) -> None:
    found = case.check(tmp_path)
    assert sorted(told(each, tmp_path) for each in found.findings) == sorted(case.found), case.about
    if case.real:
        assert outcome(found.findings) == (LOADS if case.real == LOADS else REFUSES), "the case contradicts itself"


def test_every_check_has_a_case() -> None:
    shown = {line.partition(": ")[0].rpartition(" ")[2] for case in ALL for line in case.found}
    assert set(CHECKS) - shown == {"silence-idle"}
