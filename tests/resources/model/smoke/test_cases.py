"""Every case of cases/: what is generated from a config, and what is said of a section that does not fit it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuplan.resources.model.smoke.request import InferRequest
from tests.resources.model.smoke.case import CASES, load


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_request_is_as_the_case_says(path: Path) -> None:
    case = load(path)
    made = case.request()
    if "faults" in case.expect:
        assert made == case.expect["faults"]
        return
    assert isinstance(made, InferRequest), made
    assert {each.tensor.name: told(each) for each in made.inputs} == case.expect["inputs"]
    assert made.batch == case.expect.get("batch", 1)
    assert made.form.sequence == case.expect.get("sequence", "")


def told(each: Any) -> Any:
    values = each.array.tolist()
    return {"is": f"{each.tensor.datatype.name} {list(each.shape)}", "values": _plain(values)}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value
