"""What is said of an answer: missing outputs, other types and shapes, values that are not as expected."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import pytest

from gpuplan.resources.model.smoke.request import InferRequest, build_request
from gpuplan.resources.model.smoke.response import OutputTensor, response_errors
from gpuplan.resources.model.smoke.spec import SmokeSpec
from gpuplan.resources.model.smoke.tensors import signature_of

FORM = signature_of(
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


def said(answer: dict[str, OutputTensor], **outputs: Any) -> list[str]:
    asked = SmokeSpec(outputs=outputs)
    made = build_request("m", asked, FORM, lambda _: npy())
    assert isinstance(made, InferRequest), made
    return list(response_errors(answer, made, asked, lambda _: npy()))


def good(*values: float, text: bytes = b"hi") -> dict[str, OutputTensor]:
    floats = np.array([values or (0.5, 1.5)], dtype=np.float32)
    texts = np.array([[text]], dtype=object)
    return {"f": OutputTensor("FP32", floats.shape, floats), "t": OutputTensor("BYTES", (1, 1), texts)}


def test_what_is_declared_must_come() -> None:
    assert said({}) == ["the output f is missing", "the output t is missing"]
    wrong = {**good(), "f": OutputTensor("FP64", (1, 2), None)}
    assert said(wrong) == ["the output f is FP64, and its config says FP32"]
    wrong = {**good(), "f": OutputTensor("FP32", (2, 2), None), "t": OutputTensor("BYTES", (1,), None)}
    assert said(wrong) == [
        "the output f has the shape [2, 2], and its config says [1, 2]",
        "the output t has the shape [1], and its config says [1, -1]",
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
def test_what_is_as_expected(expected: dict[str, Any]) -> None:
    assert said(good(), **expected) == []


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"f": [0.5, 1.6]}, "the output f is not as expected: [0, 1] is 1.5, expected was 1.6"),
        ({"f": 0.5}, "the output f is not as expected: [0, 1] is 1.5, expected was 0.5"),
        (
            {"f": {"values": [0.4, 1.5], "tolerance": 0.05}},
            "the output f is not as expected: [0, 0] is 0.5, expected was 0.4",
        ),
        ({"t": "ho"}, "the output t is not as expected: [0, 0] is 'hi', expected was 'ho'"),
        ({"t": ["a", "b"]}, "the output t is not as expected: its shape is [1, 1], expected was [2]"),
    ],
)
def test_what_is_not_as_expected(expected: dict[str, Any], words: str) -> None:
    assert said(good(), **expected) == [words]


def test_what_is_not_finite_is_told_only_where_that_is_asked() -> None:
    assert said(good(float("nan"), 1.0)) == []
    (words,) = said(good(float("nan"), 1.0), f={"finite": True})
    assert words == "the output f is not as expected: it holds values that are not finite (NaN or infinite)"


def test_of_many_differences_a_few_are_told() -> None:
    form = signature_of({"output": [{"name": "f", "data_type": "TYPE_INT32", "dims": [9]}]})
    asked = SmokeSpec(outputs={"f": 1})
    made = build_request("m", asked, form, lambda _: b"")
    assert isinstance(made, InferRequest)
    answer = {"f": OutputTensor("INT32", (9,), np.zeros(9, dtype=np.int32))}
    (words,) = response_errors(answer, made, asked, lambda _: b"")
    assert words.endswith("[2] is 0, expected was 1, and 6 more differ")
