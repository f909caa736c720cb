"""Right configs with one to three fields set anywhere to anything of their type: what nobody thinks of writing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from gpuplan.triton import model_config
from tests.triton.lint.corpus import ANSWERS, Sample

RIGHT = """backend: "python" max_batch_size: 8
input [ { name: "IA" data_type: TYPE_FP32 dims: [ 4 ] }, { name: "IB" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "OA" data_type: TYPE_FP32 dims: [ 4 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
MORE = (
    "dynamic_batching { preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 100 }",
    'sequence_batching { control_input [ { name: "S" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: '
    "[ 0, 1 ] } ] } ] }",
    'sequence_batching { state [ { input_name: "S" output_name: "T" data_type: TYPE_FP32 dims: [ 1 ] } ] }',
    "sequence_batching { oldest { max_candidate_sequences: 4 } }",
    "sequence_batching { direct { max_queue_delay_microseconds: 5 } }",
    "version_policy { latest { num_versions: 1 } }",
    'model_warmup [ { name: "w" batch_size: 1 '
    'inputs { key: "IA" value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } } '
    'inputs { key: "IB" value { data_type: TYPE_INT32 dims: [ 2 ] random_data: true } } } ]',
    'batch_input [ { kind: BATCH_ELEMENT_COUNT target_name: "N" data_type: TYPE_FP32 source_input: "IA" } ]',
    "response_cache { enable: true }",
    "optimization { input_pinned_memory { enable: true } }",
    'parameters { key: "k" value { string_value: "v" } }',
)
ELSEWHERE = ("ensemble_scheduling", "model_repository_agents")
"""Fields that the other corpus has, and those for which the lab's image lacks a library."""
NUMBERS = (0, 1, 2, 4, 8, 9, 100)
TEXTS = ("IA", "IB", "OA", "x", "", "model.py", "1", "python", "S", "é", "m")


def mutations(size: int, seed: int = 1) -> Iterator[Sample]:
    """As many samples; the same seed gives the same ones."""
    for number in range(size):
        rng = Random(f"mutation/{seed}/{number}")
        config = model_config.empty()
        text_format.Parse(RIGHT, config)
        for more in rng.sample(MORE, rng.choice((0, 1, 1, 2))):
            with suppress(text_format.ParseError):  # two of one choice
                text_format.Merge(more, config)
        for _ in range(rng.choice((1, 1, 2, 3))):
            _mutate(rng, rng.choice(list(_messages(config))))
        yield Sample(f"{number:03}", "m", {"m/config.pbtxt": model_config.render(config), "m/1/model.py": ANSWERS})


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
            continue
        for each in _parts(field, value):
            yield from _messages(each)


def _parts(field: FieldDescriptor, value: Any) -> list[Message]:
    if _entry(field) is not None:
        return [each for each in value.values() if isinstance(each, Message)]
    return list(value) if _many(field) else [value]


def _mutate(rng: Random, message: Message, depth: int = 0) -> None:
    """Set one field, or take it out."""
    if not message.DESCRIPTOR.fields:
        return
    field = rng.choice(message.DESCRIPTOR.fields)
    if field.name in ELSEWHERE or depth > 3:
        return
    if not depth and rng.random() < 0.15:
        message.ClearField(field.name)
    elif (entry := _entry(field)) is not None:
        _put(rng, getattr(message, field.name), *entry)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        held = getattr(message, field.name)
        inner = held.add() if _many(field) else held
        inner.SetInParent()
        for _ in range(rng.randint(0, 4)):
            _mutate(rng, inner, depth + 1)
    elif _many(field):
        _extend(rng, getattr(message, field.name), field)
    else:
        setattr(message, field.name, _value(rng, field))


def _put(rng: Random, held: Any, key: FieldDescriptor, value: FieldDescriptor) -> None:
    if value.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        held[_value(rng, key)].SetInParent()
    else:
        held[_value(rng, key)] = _value(rng, value)


def _extend(rng: Random, held: Any, field: FieldDescriptor) -> None:
    if held and rng.random() < 0.5:
        held[rng.randrange(len(held))] = _value(rng, field)
    else:
        held.append(_value(rng, field))


def _value(rng: Random, field: FieldDescriptor) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_INT32 | FieldDescriptor.CPPTYPE_INT64:
            return rng.choice((*NUMBERS, -1, -2))
        case FieldDescriptor.CPPTYPE_UINT32 | FieldDescriptor.CPPTYPE_UINT64:
            return rng.choice(NUMBERS)
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return rng.choice((0.0, 0.5, 1.0, 2.0, -1.0))
        case FieldDescriptor.CPPTYPE_BOOL:
            return rng.random() < 0.5
        case FieldDescriptor.CPPTYPE_ENUM:
            return rng.choice(field.enum_type.values).number
    text = rng.choice(TEXTS)
    return text if field.type == FieldDescriptor.TYPE_STRING else text.encode()


def _entry(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor] | None:
    """Key and value of a map field."""
    kind = field.message_type
    if kind is None or not kind.GetOptions().map_entry:
        return None
    return kind.fields_by_name["key"], kind.fields_by_name["value"]


def _many(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated)
