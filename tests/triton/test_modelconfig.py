"""config.pbtxt is read by Triton's own schema, and faults are told with their place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.triton import model_config
from gpuplan.types.value import JsonObject

QUICKSTART = sorted(Path(__file__).parents[2].joinpath("plans/models").glob("*/config.pbtxt"))


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ('name "x"', 1, 6, 'Expected ":"'),
        ("\nmax_batch: 2", 2, 1, "ModelConfig has no field max_batch (did you mean max_batch_size?)"),
        ("input [ { data_type: TYPE_INT65 } ]", 1, 22, "DataType has no value TYPE_INT65 (did you mean TYPE_INT64?)"),
        ("max_batch_size: 1\nmax_batch_size: 2", 2, 17, 'should not have multiple "max_batch_size" fields'),
        ("dynamic_batching {}\nsequence_batching {}", 2, 1, "another member of oneof"),
        ("max_batch_size: ${x}", 1, 17, "Couldn't parse integer: $"),
        ("input [ {", 1, 9, 'Expected "}"'),
        ("rate_limiter { }", 1, 1, "ModelConfig has no field rate_limiter"),
    ],
)
def test_faults_have_a_place_and_plain_words(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(model_config.ConfigSyntaxError) as caught:
        model_config.parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert words in caught.value.text


def test_64_bit_integers_stay_numbers() -> None:
    text = """
        input [ { name: "T" dims: [ -1, 16 ] } ]
        dynamic_batching {
          max_queue_delay_microseconds: 100
          priority_queue_policy { key: 2 value { max_queue_size: 3 } }
        }
        parameters { key: "k" value { string_value: "v" } }
        version_policy { specific { versions: [1, 3] } }
    """
    assert model_config.to_json(model_config.parse(text)) == {
        "input": [{"name": "T", "dims": [-1, 16]}],
        "dynamic_batching": {
            "max_queue_delay_microseconds": 100,
            "priority_queue_policy": {"2": {"max_queue_size": 3}},
        },
        "parameters": {"k": {"string_value": "v"}},
        "version_policy": {"specific": {"versions": [1, 3]}},
    }


@pytest.mark.parametrize("path", QUICKSTART, ids=lambda path: path.parent.name)
def test_render_and_parse_are_inverse_on_the_quickstart(path: Path) -> None:
    message = model_config.parse(path.read_text())
    assert model_config.parse(model_config.render(message)) == message
    assert model_config.from_json(model_config.to_json(message)) == message


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
INPUTS = st.fixed_dictionaries(
    {"name": TEXT.filter(bool), "dims": st.lists(st.integers(-1, 9), min_size=1)},
)
GROUPS = st.fixed_dictionaries({"kind": st.sampled_from(["KIND_CPU", "KIND_GPU"])})
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "name": TEXT.filter(bool),
        "max_batch_size": st.integers(1, 2**31 - 1),
        "input": st.lists(INPUTS, min_size=1),
        "metric_tags": st.dictionaries(TEXT, TEXT, min_size=1),
        "instance_group": st.lists(GROUPS, min_size=1),
        "response_cache": st.just({"enable": True}),
    },
)


@given(CONFIGS)
def test_every_form_gives_the_same_message_and_the_same_text(config: JsonObject) -> None:
    message = model_config.from_json(config)
    assert model_config.to_json(message) == config
    text = model_config.render(message)
    assert model_config.render(model_config.parse(text)) == text


def test_a_release_is_named_for_a_younger_field() -> None:
    assert model_config.since("ModelConfig", "runtime") == "24.01"
    assert model_config.since("ModelConfig", "name") == ""


def test_neither_grpc_nor_protobuf_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, gpuplan.triton.model_config as m; assert 'google.protobuf' not in sys.modules;"
        "m.parse(''); assert 'grpc' not in sys.modules and 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
