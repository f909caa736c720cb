"""The reader of places and faults says the same as protobuf's parser, and more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.triton import model_config, model_config_text
from gpuplan.triton.model_config_text import without_comments
from gpuplan.types.value import Json
from tests.conftest import examples
from tests.triton.lint.corpus import corpus

TEXTS = [path.read_text() for path in Path(__file__).parents[2].joinpath("plans/models").glob("*/config.pbtxt")]
TEXTS += [text for sample in corpus(60) for path, text in sample.files.items() if path.endswith(".pbtxt")]
PIECES = (
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    ";",
    '"',
    "'",
    "-",
    "0",
    "7",
    "name",
    "dims",
    "max_batch_size",
    "#",
    "\n",
    "<",
    ">",
)


def taken(text: str) -> bool:
    try:
        model_config.parse(text)
    except model_config.ConfigSyntaxError:
        return False
    return True


@pytest.mark.faults
@settings(max_examples=examples(400), deadline=None)
@given(st.sampled_from(TEXTS), st.data())
def test_what_protobuf_takes_has_no_fault_but_a_second_value(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 6)))
    changed = text[:at] + data.draw(st.sampled_from(("", *PIECES))) + text[until:]
    if taken(changed):
        assert {fault.kind for fault in model_config_text.read(changed).faults} <= {"duplicate"}


@pytest.mark.parametrize("text", [text for text in TEXTS if taken(text)])
def test_every_field_that_is_stated_has_a_place_that_names_it(text: str) -> None:
    reading = model_config_text.read(text)
    lines = text.splitlines()
    for path in _paths(model_config.to_json(model_config.parse(text)), ()):
        assert path in reading.places, path
        line, column = reading.places[path]
        if isinstance(path[-1], str) and path[-1] in model_config.schema_fields("ModelConfig"):
            assert lines[line - 1][column - 1 :].startswith(path[-1])


def _paths(value: Json, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield (*path, name)
            yield from _paths(part, (*path, name))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for number, part in enumerate(value):
            yield (*path, number)
            yield from _paths(part, (*path, number))


def test_all_faults_are_told_up_to_the_first_that_ends_the_reading() -> None:
    text = """max_batch: 1
input [ { data_type: TYPE_HALF dims: [ "1" ] } ]
max_batch_size: 4 max_batch_size: 8
output [ { nmae: "x" } ]
version_policy { all {} latest {} }
parameters { key: "k" valeu { string_value: "v" } }
} rest: 1
"""
    faults = model_config_text.read(text).faults
    assert [(fault.kind, fault.place) for fault in faults] == [
        ("field", (1, 1)),
        ("enum", (2, 22)),
        ("value", (2, 40)),
        ("duplicate", (3, 19)),
        ("field", (4, 12)),
        ("choice", (5, 25)),
        ("field", (6, 23)),
        ("syntax", (7, 1)),
    ]
    assert "did you mean TYPE_FP16?" in faults[1].text
    assert "did you mean name?" in faults[4].text


def test_nesting_has_an_end() -> None:
    assert model_config_text.read("optimization { cuda " * 1).faults[-1].kind == "syntax"
    assert model_config_text.read("input [ " + "{ reshape " * 5000).faults[-1].kind == "syntax"


@given(st.text(max_size=60))
def test_any_text_is_read(text: str) -> None:
    model_config_text.read(text)
    assert len(without_comments(text)) == len(text)
