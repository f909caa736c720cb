"""docs/checks.md names every check, and says of each what happens where nobody heeds it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuplan.triton.lint import CHECKS, Check
from gpuplan.types.diagnostic import Severity

TEXT = (Path(__file__).parents[3] / "docs/checks.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| `([a-z0-9-]+)` \| (.* \| .*) \|$", TEXT, re.MULTILINE))


def test_every_check_is_in_the_reference_and_nothing_else() -> None:
    assert set(ROWS) == set(CHECKS)


@pytest.mark.parametrize("check", CHECKS.values(), ids=lambda check: check.id)
def test_the_reference_says_what_follows(check: Check) -> None:
    warning = " (warning)" if check.severity is Severity.WARNING else ""
    assert ROWS[check.id].rpartition(" | ")[2] == f"{check.effect.value}{warning}"


@pytest.mark.parametrize("check", CHECKS.values(), ids=lambda check: check.id)
def test_a_check_is_named_for_good(check: Check) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", check.id)
    assert check.summary[0].isupper()
    assert not check.summary.endswith(".")
