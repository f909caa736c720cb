"""The config.pbtxt that goes to a node: the source's own, the plan file's fields over it, and gpuplan's mark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from gpuplan.triton import model_config
from gpuplan.triton.model_config import field_hint, value_hint
from gpuplan.types.diagnostic import Diagnostic, Location, Problem
from gpuplan.types.value import Json, JsonObject, as_list, as_object, digest

if TYPE_CHECKING:
    from google.protobuf.message import Message

Where = Callable[..., Location]
Path = tuple[str | int, ...]
_PLAIN: Mapping[str, tuple[type, ...]] = {
    "string": (str,), "bool": (bool,), "double": (int, float), "float": (int, float),
    "int32": (int,), "int64": (int,), "uint32": (int,), "uint64": (int,),
}  # fmt: skip
_WORDS = {"string": "text", "bool": "true or false", "double": "a number", "float": "a number"}


def lay_over(message: Message, stated: Mapping[str, Json], where: Where) -> Message:
    """A new ModelConfig: `message` with the stated fields over it. `where(*path)` says where a field is stated.

    Raises:
        Problem: every unknown field, unknown enum value and value of a wrong type, with the nearest valid name.
    """
    result = type(message)()
    result.CopyFrom(message)
    layer = _Layer(where)
    layer.fill(result, stated, ())
    if layer.faults:
        raise Problem(layer.faults)
    return result


class _Layer:
    """One walk over the stated fields that gathers its faults."""

    def __init__(self, where: Where) -> None:
        self._where = where
        self.faults: list[Diagnostic] = []

    def fill(self, message: Message, stated: Mapping[str, Json], path: Path) -> None:
        fields = model_config.fields(message)
        self._one_of_each_choice(fields, stated, path)
        for name, value in stated.items():
            field = fields.get(name)
            if field is None:
                owner = str(message.DESCRIPTOR.full_name).removeprefix(f"{model_config.PACKAGE}.")
                hint = field_hint(owner, name)
                self._fault((*path, name), "Unknown model config field", f"{owner} has no field {name}{hint}.")
            elif value is None:
                message.ClearField(name)
            else:
                self._put(message, name, field, value, (*path, name))

    def _put(self, message: Message, name: str, field: model_config.Field, value: Json, path: Path) -> None:
        if "map" in field:
            self._put_map(getattr(message, name), field["map"], value, path)
        elif field.get("repeated"):
            self._put_list(message, name, field["type"], value, path)
        elif field["type"] in _PLAIN or model_config.values(field["type"]):
            self._set(lambda plain: setattr(message, name, plain), field["type"], value, path)
        elif isinstance(value, Mapping):
            part: Message = getattr(message, name)
            part.SetInParent()
            self.fill(part, value, path)
        else:
            self._wrong(path, "a mapping of fields", value)

    def _put_list(self, message: Message, name: str, kind: str, value: Json, path: Path) -> None:
        if not isinstance(value, list | tuple):
            self._wrong(path, "a list", value)
            return
        message.ClearField(name)
        target = getattr(message, name)
        for number, item in enumerate(value):
            place = (*path, number)
            if kind in _PLAIN or model_config.values(kind):
                self._set(target.append, kind, item, place)
            elif isinstance(item, Mapping):
                self.fill(target.add(), item, place)
            else:
                self._wrong(place, "a mapping of fields", item)

    def _put_map(
        self, target: MutableMapping[str | int, object], kinds: tuple[str, str], value: Json, path: Path
    ) -> None:
        if not isinstance(value, Mapping):
            self._wrong(path, "a mapping", value)
            return
        for text, item in value.items():
            place = (*path, text)
            if kinds[0] != "string" and not str(text).isdecimal():
                self._wrong(place, "a number as key", text)
                continue
            key = str(text) if kinds[0] == "string" else int(text)
            if item is None:
                target.pop(key, None)
            elif kinds[1] in _PLAIN:
                self._set(partial(target.__setitem__, key), kinds[1], item, place)
            elif isinstance(item, Mapping):
                self.fill(cast("Message", target[key]), item, place)
            else:
                self._wrong(place, "a mapping of fields", item)

    def _set(self, put: Callable[[object], object], kind: str, value: Json, path: Path) -> None:
        numbers = model_config.values(kind)
        if numbers and isinstance(value, str) and value not in numbers:
            hint = value_hint(kind, value)
            self._fault(path, "Unknown model config value", f"{kind} has no value {value}{hint}.")
            return
        expected = (str,) if numbers else _PLAIN[kind]
        if not isinstance(value, expected) or (isinstance(value, bool) and kind != "bool"):
            self._wrong(path, _WORDS.get(kind, "a name" if numbers else "a whole number"), value)
            return
        try:
            put(numbers[str(value)] if numbers else value)
        except (ValueError, OverflowError):
            self._wrong(path, f"a number that fits {kind}", value)

    def _one_of_each_choice(
        self, fields: Mapping[str, model_config.Field], stated: Mapping[str, Json], path: Path
    ) -> None:
        chosen: dict[str, str] = {}
        for name, value in stated.items():
            choice = fields.get(name, {}).get("oneof")
            if choice is None or value is None:
                continue
            if choice in chosen:
                self._fault((*path, name), "Conflicting fields", f"{chosen[choice]} and {name} cannot both be set.")
            chosen[choice] = name

    def _wrong(self, path: Path, expected: str, value: Json) -> None:
        shown = ".".join(map(str, path))
        self._fault(path, "Wrong type in model config", f"{shown} must be {expected}, not {value!r}.")

    def _fault(self, path: Path, summary: str, detail: str) -> None:
        fix = "Use the fields of Triton's ModelConfig, as in config.pbtxt."
        self.faults.append(Diagnostic(summary, detail, fix, self._where(*path)))


if TYPE_CHECKING:
    from google.protobuf.message import Message

MARK = "gpuplan_content"
"""The parameter that tells, through Triton's config endpoint, which content a server has loaded."""
LATEST = re.compile(r"^latest (\d{1,6})$")


@dataclass(frozen=True)
class ConfigLayer:
    """Fields that the plan file states, and where it states each."""

    stated: Mapping[str, Json]
    where: Callable[..., Location]


def with_layers(config: Message, layers: Sequence[ConfigLayer]) -> Message:
    """The config with every layer over it, in order.

    Raises:
        Problem: with the faults of all layers.
    """
    faults: list[Diagnostic] = []
    for layer in layers:
        try:
            config = lay_over(config, layer.stated, layer.where)
        except Problem as problem:
            faults.extend(problem.diagnostics)
    if faults:
        raise Problem(faults)
    return config


def policy(versions: str | Sequence[int] | None) -> JsonObject:
    """What `versions` of the plan file means as fields of a ModelConfig; nothing where it says nothing.

    Raises:
        ValueError: it is neither ``latest N`` nor ``all`` nor a list.
    """
    if versions is None:
        return {}
    if versions == "all":
        return {"version_policy": {"all": {}}}
    if not isinstance(versions, str):
        return {"version_policy": {"specific": {"versions": list(versions)}}}
    match = LATEST.match(versions)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"versions cannot be {versions!r}")
    return {"version_policy": {"latest": {"num_versions": int(match[1])}}}


def wanted_versions(config: JsonObject, present: Sequence[int]) -> tuple[int, ...]:
    """Those of the version directories that Triton serves by the config's policy; its default is the latest one."""
    chosen = as_object(config.get("version_policy", {}))
    if "all" in chosen:
        return tuple(sorted(present))
    if "specific" in chosen:
        named = as_list(as_object(chosen["specific"]).get("versions", []))
        return tuple(version for version in sorted(present) if version in named)
    number = as_object(chosen.get("latest", {})).get("num_versions", 1)
    return tuple(sorted(present)[-number:]) if isinstance(number, int) else ()


def marked(config: Message, files: Mapping[str, str]) -> tuple[str, str]:
    """(content digest, rendered text) of a final config and the SHA-256 of each other file of the model.

    The digest covers the text without our mark, then becomes the mark.
    """
    here = Location("")
    plain = lay_over(config, {"parameters": {MARK: None}}, lambda *_: here)
    content = digest({"config": model_config.render(plain), "files": dict(files)})
    full = lay_over(plain, {"parameters": {MARK: {"string_value": content}}}, lambda *_: here)
    return content, model_config.render(full)
