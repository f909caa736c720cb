"""Triton's ModelConfig: reads and writes config.pbtxt by the real schema, without gRPC or a compiler.

The schema is data (`model_config_schema.json`); the protobuf class is built from it when it is first needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, TypedDict, cast

from gpuplan.types.value import Json, JsonObject

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
    from google.protobuf.message import Message

PACKAGE = "inference"
_NO_FIELD = re.compile(r'Message type "inference\.(?P<message>[\w.]+)" has no field named "(?P<field>\w+)"')
_NO_VALUE = re.compile(r'Enum type "inference\.(?P<enum>[\w.]+)" has no value named (?P<value>\w+)')
_PLACE = re.compile(r"^\d+:\d+ : ")
_EXCERPT = re.compile(r"^'.*': ")


class ConfigSyntaxError(Exception):
    """A text or JSON that is not a ModelConfig; line and column count from 1, 0 where there is no place."""

    def __init__(self, text: str, line: int = 0, column: int = 0) -> None:
        self.text = text
        self.line = line
        self.column = column
        super().__init__(f"{line}:{column}: {text}" if line else text)


def parse(text: str) -> Message:
    """The ModelConfig of a config.pbtxt; like Triton's own parser it takes each singular field once.

    Raises:
        Unparsable: the text is not a ModelConfig; says where, why, and the nearest valid name.
    """
    from google.protobuf import text_format

    try:
        return text_format.Parse(text, _message_class()())
    except text_format.ParseError as error:
        raise ConfigSyntaxError(_words(str(error)), error.GetLine() or 0, error.GetColumn() or 0) from None
    except RecursionError:
        raise ConfigSyntaxError("the text is nested too deeply") from None


def render(message: Message) -> str:
    """The config.pbtxt of a ModelConfig: fields by number, maps by key; the same message gives the same text."""
    from google.protobuf import text_format

    return text_format.MessageToString(message, as_utf8=True)


def to_json(message: Message) -> JsonObject:
    """The message as JSON with the schema's field names; 64-bit integers stay numbers, what is not set is absent."""
    from google.protobuf import json_format

    raw = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return cast(JsonObject, _numbers(raw, cast("Descriptor", message.DESCRIPTOR)))


def from_json(value: JsonObject) -> Message:
    """The ModelConfig of a JSON form, such as `to_json` or Triton's config endpoint gives it.

    Raises:
        Unparsable: a field or a value that the schema does not have.
    """
    from google.protobuf import json_format

    try:
        return json_format.ParseDict(dict(value), _message_class()())
    except json_format.ParseError as error:
        raise ConfigSyntaxError(_words(str(error))) from None


def empty() -> Message:
    """A ModelConfig that says nothing."""
    return _message_class()()


def fields(message: Message) -> Mapping[str, Field]:
    """The fields that a message of the schema has, by name."""
    return _schema()["messages"][str(message.DESCRIPTOR.full_name).removeprefix(f"{PACKAGE}.")]


def schema_fields(message: str) -> Mapping[str, Field]:
    """The fields of a message by its name in the schema, such as ``ModelInstanceGroup``."""
    return _schema()["messages"].get(message, {})


def is_message(kind: str) -> bool:
    """True where a field's type is a message of the schema."""
    return kind in _schema()["messages"]


def values(enum: str) -> Mapping[str, int]:
    """The values of an enum by name; empty where the name is not that of an enum."""
    return _schema()["enums"].get(enum, {})


def since(message: str, field: str) -> str:
    """The first release that has the field, such as ``24.08``; empty where every release since 21.05 has it."""
    return _schema()["messages"][message][field].get("since", "")


def younger(config: JsonObject, release: str, message: str = "ModelConfig") -> Iterator[tuple[str, str]]:
    """The outermost fields that came after a release such as ``24.10``: dotted path, and the first release with it."""
    known = _schema()["messages"]
    for name, value in config.items():
        field = known[message][name]
        if (first := field.get("since", "")) > release:
            yield name, first
            continue
        kind = field["map"][1] if "map" in field else field["type"]
        if kind in known:
            parts = value.values() if "map" in field and isinstance(value, Mapping) else value
            for part in [parts] if isinstance(parts, Mapping) else parts if isinstance(parts, Iterable) else ():
                if isinstance(part, Mapping):
                    yield from ((f"{name}.{path}", first) for path, first in younger(part, release, kind))


def nearest(name: str, valid: Iterable[str]) -> str:
    """`` (did you mean …?)``, or nothing where no valid name is near."""
    close = get_close_matches(name, list(valid), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


class Field(TypedDict, total=False):
    """One field of a message: its number, and either a `type` (scalar, message or enum) or a `map` of two types."""

    number: int
    type: str
    map: tuple[str, str]
    repeated: bool
    oneof: str
    since: str


class _Schema(TypedDict):
    messages: dict[str, dict[str, Field]]
    enums: dict[str, dict[str, int]]


@cache
def _schema() -> _Schema:
    text = files("gpuplan.triton").joinpath("model_config_schema.json").read_text("utf-8")
    return cast(_Schema, json.loads(text))


@cache
def _message_class() -> type[Message]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    schema = _schema()
    protos = {name: _message_proto(name, content) for name, content in schema["messages"].items()}
    file = descriptor_pb2.FileDescriptorProto(name="model_config.proto", package=PACKAGE, syntax="proto3")
    for name, numbers in schema["enums"].items():
        parent, _, short = name.rpartition(".")
        enum = (protos[parent] if parent else file).enum_type.add(name=short)
        for value, number in numbers.items():
            enum.value.add(name=value, number=number)
    for name in sorted(protos, key=lambda name: (-name.count("."), name)):
        parent = name.rpartition(".")[0]
        (protos[parent].nested_type if parent else file.message_type).append(protos[name])
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName(f"{PACKAGE}.ModelConfig")
    return message_factory.GetMessageClass(found)


def _message_proto(name: str, content: Mapping[str, Field]) -> DescriptorProto:
    from google.protobuf import descriptor_pb2

    proto = descriptor_pb2.DescriptorProto(name=name.rpartition(".")[2])
    oneofs = list(dict.fromkeys(each["oneof"] for each in content.values() if "oneof" in each))
    for oneof in oneofs:
        proto.oneof_decl.add(name=oneof)
    for field_name, field in content.items():
        target = proto.field.add(name=field_name, number=field["number"], label=3 if _many(field) else 1)
        if "map" in field:
            entry = "".join(part.capitalize() for part in field_name.split("_")) + "Entry"
            nested = proto.nested_type.add(name=entry)
            nested.options.map_entry = True
            for number, (part, kind) in enumerate(zip(("key", "value"), field["map"], strict=True), start=1):
                _set_type(nested.field.add(name=part, number=number, label=1), kind)
            _set_type(target, f"{name}.{entry}")
        else:
            _set_type(target, field["type"])
        if "oneof" in field:
            target.oneof_index = oneofs.index(field["oneof"])
    return proto


def _many(field: Field) -> bool:
    return "map" in field or field.get("repeated", False)


def _set_type(field: FieldDescriptorProto, kind: str) -> None:
    """Name the type of a field: a scalar such as ``uint32``, or a message or enum of the schema."""
    if kind in _scalars():
        field.type = _scalars()[kind]
    else:
        field.type = field.TYPE_ENUM if kind in _schema()["enums"] else field.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{kind}"


@cache
def _scalars() -> Mapping[str, FieldDescriptorProto.Type.ValueType]:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    names = ("double", "float", "int32", "int64", "uint32", "uint64", "bool", "string")
    return {name: FieldDescriptorProto.Type.Value(f"TYPE_{name.upper()}") for name in names}


def _words(error: str) -> str:
    """The parser's words without place and excerpt, and the nearest valid name where it did not know one."""
    text = _EXCERPT.sub("", _PLACE.sub("", error)).partition("\n")[0].rstrip(".")

    if found := _NO_FIELD.search(text):
        return f"{found['message']} has no field {found['field']}{field_hint(found['message'], found['field'])}"
    if found := _NO_VALUE.search(text):
        return f"{found['enum']} has no value {found['value']}{value_hint(found['enum'], found['value'])}"
    return text


def _numbers(value: Json, descriptor: Descriptor) -> Json:
    """JSON of protobuf with its 64-bit integers, which it writes as text, turned into numbers."""
    if not isinstance(value, Mapping):
        return value
    return {name: _field_numbers(part, descriptor.fields_by_name[name]) for name, part in value.items()}


def _field_numbers(value: Json, field: FieldDescriptor) -> Json:
    if field.message_type is not None:
        message = field.message_type
        if message.GetOptions().map_entry and isinstance(value, Mapping):
            return {key: _field_numbers(part, message.fields_by_name["value"]) for key, part in value.items()}
        if isinstance(value, list):
            return [_numbers(item, message) for item in value]
        return _numbers(value, message)
    if field.cpp_type not in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64):
        return value
    return [int(str(item)) for item in value] if isinstance(value, list) else int(str(value))


# What was meant by a name that ModelConfig does not have: the nearest one, or the place where it belongs.

MEANT: Mapping[str, str] = {
    "TYPE_BYTES": "TYPE_STRING",
    "BYTES": "TYPE_STRING",
    "TYPE_FLOAT": "TYPE_FP32",
    "TYPE_FLOAT16": "TYPE_FP16",
    "TYPE_FLOAT32": "TYPE_FP32",
    "TYPE_FLOAT64": "TYPE_FP64",
    "TYPE_HALF": "TYPE_FP16",
    "TYPE_DOUBLE": "TYPE_FP64",
    "TYPE_BFLOAT16": "TYPE_BF16",
    "TYPE_INT": "TYPE_INT32",
    "TYPE_LONG": "TYPE_INT64",
}
"""Words of other tools for a data type. BYTES is what the protocol calls TYPE_STRING (model_configuration.md)."""


def field_hint(message: str, name: str) -> str:
    """`` (did you mean …?)`` or `` (it belongs in …)`` for a field that a message does not have; else an empty text."""
    if places := _places().get(name):
        return f" (it belongs in {' or '.join(places[:2])})"
    return nearest(name, schema_fields(message))


def value_hint(enum: str, name: str) -> str:
    """`` (did you mean …?)`` for a value that an enum does not have, or all that it has where they are few."""
    valid = values(enum)
    if MEANT.get(name) in valid:
        return f" (did you mean {MEANT[name]}?)"
    if enum == "DataType" and f"TYPE_{name}" in valid:
        return f" (did you mean TYPE_{name}?)"
    few = f" (one of {', '.join(valid)})" if len(valid) <= 8 else ""
    return nearest(name, valid) or few


@cache
def _places() -> Mapping[str, tuple[str, ...]]:
    """Each field that a part of ModelConfig has → the paths of the parts, the shortest first."""
    found: dict[str, list[str]] = {}
    layer = [("ModelConfig", "")]
    for _ in range(4):
        below: list[tuple[str, str]] = []
        for message, path in layer:
            for name, field in schema_fields(message).items():
                if path and path not in found.setdefault(name, []):
                    found[name].append(path)
                kind = field["map"][1] if "map" in field else field["type"]
                if is_message(kind):
                    below.append((kind, f"{path}.{name}" if path else name))
        layer = below
    return {name: tuple(sorted(paths, key=_rarity)) for name, paths in found.items()}


def _rarity(path: str) -> tuple[int, bool]:
    """Shallow places first; those of ragged batches, which hardly anybody writes, last."""
    return path.count("."), path.startswith("batch_")
