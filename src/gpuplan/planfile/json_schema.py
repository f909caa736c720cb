"""The JSON Schema of plan files, from the same classes that validate them, for editors to complete and check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuplan.types.value import Json, JsonObject

IDENTITY = "urn:gpuplan:plan-file:1"
"""A name rather than an address: editors take the schema from the file that `gpuplan schema` was written to."""
VARIABLE = r"^\$\{var\.[^{}]+\}$"
"""A value that is only a variable may stand in place of a number, a boolean, or one of a few words."""
WITH_VARIABLE = r"\$\{var\.[^{}]+\}"
"""Text that must look in some way may look so only once its variables are filled in."""


def schema() -> JsonObject:
    """A schema of draft 2020-12.

    It takes what the loader takes before variables are filled in: text where a number will stand, and numbers where
    text is wanted, since a plain 24.10 is the text that was written.
    """
    from gpuplan.planfile.schema import PlanFile

    generated = PlanFile.model_json_schema(mode="validation")
    generated.pop("title", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": IDENTITY,
        "title": "gpuplan plan file",
        **{key: _section(value) for key, value in generated.items()},
    }


def _section(value: Json) -> Json:
    """The same schema with what a plan file may write in place of each plain value."""
    if isinstance(value, str) or not isinstance(value, Sequence | Mapping):
        return value
    if isinstance(value, Sequence):
        return [_section(item) for item in value]
    inside = {key: _section(item) for key, item in value.items() if not (key == "default" and item is None)}
    if "patternProperties" in inside:
        inside["additionalProperties"] = False
    return _stated(_widened(inside))


def _widened(inside: dict[str, Json]) -> dict[str, Json]:
    kind = inside.get("type")
    if kind == "string" and not inside.keys() & {"pattern", "enum", "const"}:
        return {**inside, "type": ["string", "number", "boolean"]}
    if kind not in ("string", "integer", "number", "boolean"):
        return inside
    described: dict[str, Json] = {key: inside.pop(key) for key in ("title", "description", "default") if key in inside}
    variable = {"type": "string", "pattern": WITH_VARIABLE if "pattern" in inside else VARIABLE}
    return {**described, "anyOf": [inside, variable]}


def _stated(inside: dict[str, Json]) -> dict[str, Json]:
    """Without null: a key that is there states something."""
    sides = inside.get("anyOf")
    if not isinstance(sides, list):
        return inside
    stated = [side for side in sides if side != {"type": "null"}]
    if len(stated) > 1 or not isinstance(stated[0], Mapping):
        return {**inside, "anyOf": stated}
    return {**stated[0], **{key: value for key, value in inside.items() if key != "anyOf"}}
