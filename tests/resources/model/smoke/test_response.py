"""Errors of a response: missing outputs, other types and shapes, values that are not as expected."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import pytest

from gpuplan.resources.model.smoke.request import InferRequest, build_request
from gpuplan.resources.model.smoke.response import OutputTensor, response_errors
from gpuplan.resources.model.smoke.spec import SmokeSpec
from gpuplan.resources.model.smoke.tensors import signature_of

SIGNATURE = signature_of(
    {
        "max_batch_size": 4,
        "output": [
            {"name": "f", "data_type": "TYPE_FP32", "dims": [2]},
            {"name": "t", "data_type": "TYPE_STRING", "dims": [-1]},
        ],
    }
)


def npy() -> bytes:
    file = BytesIO()
    np.save(file, np.array([[0.5, 1.5]]))
    return file.getvalue()


def errors(answer: dict[str, OutputTensor], **outputs: Any) -> list[str]:
    spec = SmokeSpec(outputs=outputs)
    request = build_request("m", spec, SIGNATURE, lambda _: npy())
    assert isinstance(request, InferRequest), request
    return list(response_errors(answer, request.signature, request.batch, spec.outputs, lambda _: npy()))


def good(*values: float, text: bytes = b"hi") -> dict[str, OutputTensor]:
    floats = np.array([values or (0.5, 1.5)], dtype=np.float32)
    texts = np.array([[text]], dtype=object)
    return {"f": OutputTensor("FP32", floats.shape, floats), "t": OutputTensor("BYTES", (1, 1), texts)}


def test_declared_outputs_are_required() -> None:
    assert errors({}) == ["output f is missing", "output t is missing"]
    wrong = {**good(), "f": OutputTensor("FP64", (1, 2), None)}
    assert errors(wrong) == ["output f is FP64, but the config declares FP32"]
    wrong = {**good(), "f": OutputTensor("FP32", (2, 2), None), "t": OutputTensor("BYTES", (1,), None)}
    assert errors(wrong) == [
        "output f has the shape [2, 2], but the config declares [1, 2]",
        "output t has the shape [1], but the config declares [1, -1]",
    ]


@pytest.mark.parametrize(
    "expected",
    [
        {"f": [0.5, 1.5]},
        {"f": [[0.5, 1.5]], "t": [["hi"]]},
        {"f": [0.5000001, 1.5], "t": "hi"},
        {"f": {"values": [0.4, 1.6], "tolerance": 0.11}},
        {"f": {"finite": True}},
        {"f": {"file": "f.npy"}},
    ],
)
def test_expected_outputs(expected: dict[str, Any]) -> None:
    assert errors(good(), **expected) == []


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"f": [0.5, 1.6]}, "output f is not as expected: [0, 1] is 1.5, expected 1.6"),
        ({"f": 0.5}, "output f is not as expected: [0, 1] is 1.5, expected 0.5"),
        (
            {"f": {"values": [0.4, 1.5], "tolerance": 0.05}},
            "output f is not as expected: [0, 0] is 0.5, expected 0.4",
        ),
        ({"t": "ho"}, "output t is not as expected: [0, 0] is 'hi', expected 'ho'"),
        ({"t": ["a", "b"]}, "output t is not as expected: its shape is [1, 1], expected [2]"),
    ],
)
def test_unexpected_outputs(expected: dict[str, Any], words: str) -> None:
    assert errors(good(), **expected) == [words]


def test_nan_is_an_error_only_if_finite_is_asked_for() -> None:
    assert errors(good(float("nan"), 1.0)) == []
    (words,) = errors(good(float("nan"), 1.0), f={"finite": True})
    assert words == "output f is not as expected: it contains NaN or infinite values"


def test_a_few_of_many_differences_are_listed() -> None:
    signature = signature_of({"output": [{"name": "f", "data_type": "TYPE_INT32", "dims": [9]}]})
    spec = SmokeSpec(outputs={"f": 1})
    request = build_request("m", spec, signature, lambda _: b"")
    assert isinstance(request, InferRequest)
    answer = {"f": OutputTensor("INT32", (9,), np.zeros(9, dtype=np.int32))}
    (words,) = response_errors(answer, request.signature, request.batch, spec.outputs, lambda _: b"")
    assert words.endswith("[2] is 0, expected 1, and 6 more differ")
