"""The comparison of each case in cases/ (a new case is a new file), and what holds for all sets of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.resources.repository.diff import diff
from gpuplan.resources.repository.read import read
from gpuplan.types.change import Comparison
from gpuplan.types.resource import Desired, DiffContext, Record, Recorded
from gpuplan.types.snapshot import Probe, ProbeError, Snapshot
from tests.resources.repository.case import CASES, Texts, desired_repositories, load, observed
from tests.resources.told import told


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = load(path)
    assert told(case.compare()) == case.expect, case.about


PATHS = ["1/model.py", "2/model.py", "config.pbtxt", "1/", "labels.txt"]
CONFIGS = ["max_batch_size: 4", "max_batch_size: 8", "not a config", 'backend: "python"']
FILES = st.dictionaries(st.sampled_from(PATHS), st.sampled_from(CONFIGS), min_size=1).map(
    lambda files: {path: "" if path.endswith("/") else text for path, text in files.items()}
)
REPOSITORIES = st.dictionaries(st.sampled_from(["t", "u"]), st.dictionaries(st.sampled_from("abc"), FILES))


def compare(desired: tuple[Desired, ...], probe: Probe, recorded: tuple[Desired, ...] = ()) -> Comparison:
    resources = {each.address: Recorded(each.digest, each.spec) for each in recorded}
    snapshot = Snapshot("n", {"repository": probe})
    return diff(desired, read(snapshot), DiffContext("n", "prod", Record("prod", "r1", resources=resources)))


@given(REPOSITORIES)
def test_files_as_desired_have_no_change(desired: Texts) -> None:
    assert compare(desired_repositories(desired), observed(desired)).changes == ()


@given(REPOSITORIES, REPOSITORIES, st.booleans())
def test_every_difference_has_a_field_and_a_step(desired: Texts, present: Texts, without_texts: bool) -> None:
    comparison = compare(desired_repositories(desired), observed(present, without_texts))
    changes = {change.address.name: change for change in comparison.changes}
    different = {name for name in {*desired, *present} if desired.get(name) != present.get(name)}
    assert set(changes) == different
    for name, change in changes.items():
        assert change.steps
        assert change.fields or desired.get(name) == {} or present.get(name) == {}


@given(REPOSITORIES, REPOSITORIES)
def test_a_failed_probe_never_gives_a_change(desired: Texts, before: Texts) -> None:
    comparison = compare(
        desired_repositories(desired), Probe(error=ProbeError("timeout", "no answer")), desired_repositories(before)
    )
    assert comparison.changes == ()
    assert {each.address.name for each in comparison.unknown} == {*desired, *before}
    assert all("it continues" in each.diagnostic.fix for each in comparison.unknown)


def test_an_unexpected_answer_is_unknown_and_not_empty() -> None:
    answers: list[Any] = [None, {}, {"repositories": []}, {"repositories": {"t": {"models": {"a": {"files": None}}}}}]
    for value in answers:
        comparison = compare(desired_repositories({"t": {"a": {"1/model.py": "v1"}}}), Probe(value))
        assert comparison.changes == ()
        assert len(comparison.unknown) == 1
