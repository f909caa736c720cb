"""Every case of cases/: what is generated from a config, and the issues of a section that does not fit it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.resources.model.smoke.request import InferRequest, build_request, layout_of, with_outputs
from gpuplan.resources.model.smoke.response import InferResponse, OutputTensor, response_errors
from gpuplan.resources.model.smoke.spec import SmokeSpec
from gpuplan.resources.model.smoke.tensors import (
    DATATYPES,
    ModelSignature,
    from_bytes,
    generate,
    matches,
    numpy_type,
    signature_of,
    to_bytes,
)
from gpuplan.resources.typed import decode, encode
from gpuplan.types.diagnostic import Problem
from gpuplan.types.value import JsonObject
from tests.resources.model.smoke.case import CASES, load


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = load(path)
    request = case.request()
    if "issues" in case.expect:
        assert request == case.expect["issues"]
        return
    assert isinstance(request, InferRequest), request
    assert {each.tensor.name: described(each) for each in request.inputs} == case.expect["inputs"]
    assert request.batch == case.expect.get("batch", 1)
    assert request.signature.sequence == case.expect.get("sequence", "")


def described(each: Any) -> Any:
    values = each.array.tolist()
    return {"is": f"{each.tensor.datatype.name} {list(each.shape)}", "values": _plain(values)}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


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
    raise AssertionError(f"unexpected read of {path}")


@given(configs(), st.dictionaries(NAMES, WORDS))
def test_a_generated_request_fits_the_metadata(config: dict[str, Any], words: dict[str, str | None]) -> None:
    signature = signature_of(config)
    inputs = {name: word for name, word in words.items() if name in signature.inputs and word}
    request = build_request("m", decode(SmokeSpec, encode(SmokeSpec(inputs=inputs))), signature, nothing)
    assert isinstance(request, InferRequest), request
    given_names = {each.tensor.name for each in request.inputs}
    assert given_names == {name for name, each in signature.inputs.items() if not each.optional or name in inputs}
    for each in request.inputs:
        assert matches(each.shape, signature.request_shape(each.tensor, request.batch))
        assert -1 not in each.shape
        assert each.array.shape == each.shape
        assert each.array.dtype == numpy_type(each.tensor.datatype)


@given(configs())
def test_a_fitting_response_has_no_errors_and_survives_shared_memory(config: dict[str, Any]) -> None:
    signature = signature_of(config)
    request = build_request("m", SmokeSpec(), signature, nothing)
    assert isinstance(request, InferRequest)
    answer = {name: answered(signature, name) for name in signature.outputs}
    assert list(response_errors(answer, request.signature, request.batch, {}, nothing)) == []
    layout = layout_of(request)
    for each in request.inputs:
        slot = layout.inputs[each.tensor.name]
        assert layout.content[slot.offset : slot.offset + slot.size] == to_bytes(each.tensor.datatype, each.array)
    region = bytearray(layout.content)
    for name, slot in layout.outputs.items():
        raw = to_bytes(signature.outputs[name].datatype, array_of(answer, name))
        region[slot.offset : slot.offset + slot.size] = raw
    absent = {name: OutputTensor(each.datatype, each.shape, None) for name, each in answer.items()}
    back = with_outputs(absent, layout, request, bytes(region))
    for name in layout.outputs:
        assert np.array_equal(array_of(back, name), array_of(answer, name))
    slots = sorted((*layout.inputs.values(), *layout.outputs.values()), key=lambda slot: (slot.offset, slot.size))
    assert all(one.offset + one.size <= other.offset for one, other in pairwise(slots))


@given(st.sampled_from(sorted(DATATYPES)), WORDS, st.lists(st.integers(1, 3), max_size=3))
def test_bytes_are_the_elements(kind: str, word: str | None, shape: list[int]) -> None:
    datatype = DATATYPES[kind]
    array = generate(word or "", datatype, tuple(shape), "seed")
    assert np.array_equal(from_bytes(datatype, to_bytes(datatype, array), tuple(shape)), array)
    assert np.array_equal(array, generate(word or "", datatype, tuple(shape), "seed"))


def array_of(response: InferResponse, name: str) -> Any:
    return response[name].array


def answered(signature: ModelSignature, name: str) -> OutputTensor:
    tensor = signature.outputs[name]
    shape = tuple(2 if size == -1 else size for size in signature.request_shape(tensor, 1))
    return OutputTensor(tensor.datatype.name, shape, generate("random", tensor.datatype, shape, name))


def test_an_output_that_is_too_large_for_shared_memory_is_refused() -> None:
    output: JsonObject = {"name": "b", "data_type": "TYPE_FP32", "dims": [1 << 20, 1 << 12]}
    signature = signature_of({"input": [{"name": "a", "data_type": "TYPE_FP32", "dims": [1]}], "output": [output]})
    request = build_request("m", SmokeSpec(), signature, nothing)
    assert isinstance(request, InferRequest)
    with pytest.raises(Problem, match="17,179,869,184 bytes"):
        layout_of(request)
