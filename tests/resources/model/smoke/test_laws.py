"""Laws: whatever a config says, what is generated for it fits it, and lies in memory as it came."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.resources.model.smoke.request import InferRequest, build_request, filled, layout_of
from gpuplan.resources.model.smoke.response import OutputTensor, response_errors
from gpuplan.resources.model.smoke.spec import SmokeSpec, asked_from
from gpuplan.resources.model.smoke.tensors import (
    DATATYPES,
    ModelSignature,
    fits,
    from_bytes,
    generated,
    numpy_type,
    signature_of,
    to_bytes,
)
from gpuplan.types.diagnostic import Problem

NAMES = st.sampled_from(("a", "b", "c", "d"))
KINDS = st.sampled_from(sorted({*DATATYPES, "STRING"} - {"BYTES"}))
TENSORS = st.dictionaries(
    NAMES, st.tuples(KINDS, st.lists(st.sampled_from((-1, 1, 2, 3)), min_size=1, max_size=3)), min_size=1
)
WORDS = st.sampled_from(("zeros", "ones", "random", None))


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    def tensors(optional: bool) -> list[dict[str, Any]]:
        return [
            {"name": name, "data_type": f"TYPE_{kind}", "dims": dims, "optional": optional and draw(st.booleans())}
            for name, (kind, dims) in draw(TENSORS).items()
        ]

    return {"input": tensors(True), "output": tensors(False), "max_batch_size": draw(st.sampled_from((0, 1, 8)))}


def nothing(path: str) -> bytes:
    raise AssertionError(f"nobody asked for {path}")


@given(configs(), st.dictionaries(NAMES, WORDS))
def test_a_generated_request_fits_the_metadata(config: dict[str, Any], words: dict[str, str | None]) -> None:
    form = signature_of(config)
    inputs = {name: word for name, word in words.items() if name in form.inputs and word}
    made = build_request("m", asked_from(SmokeSpec(inputs=inputs).json()), form, nothing)
    assert isinstance(made, InferRequest), made
    given_names = {each.tensor.name for each in made.inputs}
    assert given_names == {name for name, each in form.inputs.items() if not each.optional or name in inputs}
    for each in made.inputs:
        assert fits(each.shape, form.full(each.tensor, made.batch))
        assert -1 not in each.shape
        assert each.array.shape == each.shape
        assert each.array.dtype == numpy_type(each.tensor.datatype)


@given(configs())
def test_what_fits_is_no_complaint_and_what_lies_in_memory_is_found_again(config: dict[str, Any]) -> None:
    form = signature_of(config)
    made = build_request("m", SmokeSpec(), form, nothing)
    assert isinstance(made, InferRequest)
    answer = {name: answered(form, name) for name in form.outputs}
    assert list(response_errors(answer, made, SmokeSpec(), nothing)) == []
    layout = layout_of(made)
    for each in made.inputs:
        slot = layout.inputs[each.tensor.name]
        assert layout.content[slot.offset : slot.offset + slot.size] == to_bytes(each.tensor.datatype, each.array)
    region = bytearray(layout.content)
    for name, slot in layout.outputs.items():
        raw = to_bytes(form.outputs[name].datatype, answer[name].array)
        region[slot.offset : slot.offset + slot.size] = raw
    absent = {name: OutputTensor(each.datatype, each.shape, None) for name, each in answer.items()}
    back = filled(absent, layout, made, bytes(region))
    for name in layout.outputs:
        assert np.array_equal(back[name].array, answer[name].array)
    slots = sorted((*layout.inputs.values(), *layout.outputs.values()), key=lambda slot: (slot.offset, slot.size))
    assert all(one.offset + one.size <= other.offset for one, other in pairwise(slots))


@given(st.sampled_from(sorted(DATATYPES)), WORDS, st.lists(st.integers(1, 3), max_size=3))
def test_bytes_are_the_elements(kind: str, word: str | None, shape: list[int]) -> None:
    datatype = DATATYPES[kind]
    array = generated(word or "", datatype, tuple(shape), "seed")
    assert np.array_equal(from_bytes(datatype, to_bytes(datatype, array), tuple(shape)), array)
    assert np.array_equal(array, generated(word or "", datatype, tuple(shape), "seed"))


def answered(form: ModelSignature, name: str) -> OutputTensor:
    tensor = form.outputs[name]
    shape = tuple(2 if size == -1 else size for size in form.full(tensor, 1))
    return OutputTensor(tensor.datatype.name, shape, generated("random", tensor.datatype, shape, name))


def test_an_output_that_would_fill_the_memory_of_this_machine_is_not_asked_for() -> None:
    output = {"name": "b", "data_type": "TYPE_FP32", "dims": [1 << 20, 1 << 12]}
    form = signature_of({"input": [{"name": "a", "data_type": "TYPE_FP32", "dims": [1]}], "output": [output]})
    made = build_request("m", SmokeSpec(), form, nothing)
    assert isinstance(made, InferRequest)
    with pytest.raises(Problem, match="17,179,869,184 bytes"):
        layout_of(made)
