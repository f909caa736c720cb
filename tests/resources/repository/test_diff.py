"""What the room says of each case in cases/: adding a case is adding a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.resources.repository.diff import diff
from gpuplan.resources.repository.read import read
from gpuplan.types.change import Comparison
from gpuplan.types.record import Record, Recorded
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import Probe, ProbeError, Snapshot
from tests.resources.repository.case import CASES, Texts, found, load, wishes
from tests.resources.told import told


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_room_says_what_the_case_expects(path: Path) -> None:
    case = load(path)
    assert told(case.compare()) == case.expect, case.about


# What holds for every set of files, not only for the cases.

PATHS = ["1/model.py", "2/model.py", "config.pbtxt", "1/", "labels.txt"]
CONFIGS = ["max_batch_size: 4", "max_batch_size: 8", "not a config", 'backend: "python"']
FILES = st.dictionaries(st.sampled_from(PATHS), st.sampled_from(CONFIGS), min_size=1).map(
    lambda files: {path: "" if path.endswith("/") else text for path, text in files.items()}
)
REPOSITORIES = st.dictionaries(st.sampled_from(["t", "u"]), st.dictionaries(st.sampled_from("abc"), FILES))


def compared(desired: tuple[Desired, ...], probe: Probe, recorded: tuple[Desired, ...] = ()) -> Comparison:
    resources = {each.address: Recorded(each.digest, each.spec) for each in recorded}
    snapshot = Snapshot("n", {"repository": probe})
    return diff(desired, read(snapshot), DiffContext("n", "prod", Record("prod", "r1", resources=resources)))


@given(REPOSITORIES)
def test_what_lies_there_as_wanted_has_no_change(wanted: Texts) -> None:
    assert compared(wishes(wanted), found(wanted)).changes == ()


@given(REPOSITORIES, REPOSITORIES, st.booleans())
def test_every_difference_has_a_field_and_a_step(wanted: Texts, there: Texts, silent: bool) -> None:
    changes = {change.address.name: change for change in compared(wishes(wanted), found(there, silent)).changes}
    different = {name for name in {*wanted, *there} if wanted.get(name) != there.get(name)}
    assert set(changes) == different
    for name, change in changes.items():
        assert change.steps
        assert change.fields or wanted.get(name) == {} or there.get(name) == {}


@given(REPOSITORIES, REPOSITORIES)
def test_a_failed_probe_never_gives_a_change(wanted: Texts, before: Texts) -> None:
    comparison = compared(wishes(wanted), Probe(error=ProbeError("timeout", "no answer")), wishes(before))
    assert comparison.changes == ()
    assert {each.address.name for each in comparison.unknown} == {*wanted, *before}
    assert all("it goes on from there" in each.diagnostic.fix for each in comparison.unknown)


def test_an_answer_of_another_form_is_unknown_and_not_empty() -> None:
    answers: list[Any] = [None, {}, {"repositories": []}, {"repositories": {"t": {"models": {"a": {"files": None}}}}}]
    for value in answers:
        comparison = compared(wishes({"t": {"a": {"1/model.py": "v1"}}}), Probe(value))
        assert comparison.changes == ()
        assert len(comparison.unknown) == 1
