"""A change set survives being saved and read back; anything else is refused with a reason."""

import json

import pytest
from hypothesis import given, settings

from gpuplan.core.plan.saved import read_change_set
from gpuplan.output.json import change_set_document as save
from gpuplan.types.change import FORMAT, ChangeSet
from gpuplan.types.diagnostic import Problem
from gpuplan.types.value import Json
from tests.conftest import examples
from tests.core.plan.strategies import change_sets


@pytest.mark.faults
@settings(max_examples=examples(100))
@given(change_sets)
def test_what_is_saved_comes_back_the_same(change_set: ChangeSet) -> None:
    assert read_change_set(json.loads(json.dumps(save(change_set))), "saved.json") == change_set


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([], "it is not a gpuplan change set"),
        ({"kind": "something"}, "it is not a gpuplan change set"),
        (
            {"kind": "gpuplan change set", "format": 99},
            f"its format is 99, but this gpuplan version reads format {FORMAT}",
        ),
        ({"kind": "gpuplan change set", "format": FORMAT}, "it is damaged: 'plan'"),
    ],
)
def test_what_is_no_change_set_is_refused(value: Json, why: str) -> None:
    with pytest.raises(Problem) as refused:
        read_change_set(value, "saved.json")
    assert why in refused.value.diagnostics[0].detail
