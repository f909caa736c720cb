"""What the schema found wrong, in plain sentences: one for each fault, with its place and the nearest valid name."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from gpuplan.planfile.yamlfile import Document, Where, below, dotted
from gpuplan.types.diagnostic import Diagnostic

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "dict_type": "a section",
    "model_type": "a section",
    "invalid-json-value": "plain data",
}
_QUOTES = "'\""
_RANGES = {
    "greater_than": ("more than {}", "gt"),
    "greater_than_equal": ("at least {}", "ge"),
    "less_than": ("less than {}", "lt"),
    "less_than_equal": ("at most {}", "le"),
    "string_too_short": ("non-empty text", "min_length"),
    "too_short": ("a list of at least {}", "min_length"),
}
_PATTERNS = {
    r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$": "1 to 63 letters, digits, '_', '.' or '-', the first one a letter or digit",
    r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$": "1 to 128 letters, digits, '_', '.' or '-'",
    r"^(no|always|unless-stopped|on-failure(:\d+)?)$": "no, always, unless-stopped, on-failure or on-failure:N",
    r"^\d{4}-\d{2}-\d{2}$": "a day as YYYY-MM-DD",
    r"^[1-8]c$": "a number of compute slices, such as 1c",
}


@dataclass(frozen=True)
class SchemaError:
    """One complaint of the schema, at a path of the document instead of pydantic's own."""

    path: Where
    kind: str
    key: bool
    """It is about the key, not about its value."""
    detail: ErrorDetails

    @property
    def misshapen(self) -> bool:
        """The value is of another type altogether: the other side of a union may be what was meant."""
        return self.kind in _EXPECTED or self.kind == "literal_error"


_LISTED = 16
"""Number of valid keys listed besides the nearest one."""


def schema_errors(error: ValidationError, data: object) -> tuple[SchemaError, ...]:
    """Everything pydantic found, at paths of the data; of the sides of a union only what was meant is kept."""
    found = [_fault(detail, data) for detail in error.errors(include_url=False)]
    deep = {fault.path[:end] for fault in found for end in range(len(fault.path))}
    exact = {fault.path for fault in found if not fault.misshapen and not fault.key}
    return tuple(fault for fault in found if not (fault.misshapen and (fault.path in deep or fault.path in exact)))


def to_diagnostics(
    found: Sequence[SchemaError], document: Document, model: type[BaseModel], whole: str = "The plan file"
) -> tuple[Diagnostic, ...]:
    """One diagnostic for each place; several complaints about one value become one sentence. `whole` is the file."""
    places: dict[tuple[Where, str], list[SchemaError]] = {}
    for fault in found:
        together = "expected" if fault.misshapen else fault.kind
        places.setdefault((fault.path, together), []).append(fault)
    return tuple(_told(group, document, model, whole) for group in places.values())


def _fault(detail: ErrorDetails, data: object) -> SchemaError:
    """Drop what pydantic puts between the keys: names of classes and of the sides of unions."""
    path: list[str | int] = []
    current = data
    for part in detail["loc"]:
        with contextlib.suppress(LookupError):
            current = below(current, part)
            path.append(part)
    if detail["type"] == "missing":
        path.append(detail["loc"][-1])
    return SchemaError(tuple(path), detail["type"], detail["loc"][-1] == "[key]", detail)


def _told(group: Sequence[SchemaError], document: Document, model: type[BaseModel], whole: str) -> Diagnostic:
    first = group[0]
    where = document.keys.get(first.path) if first.key or first.kind == "extra_forbidden" else None
    where = where or document.at(first.path)
    name, inside = first.path[-1] if first.path else "the file", dotted(first.path[:-1])
    if first.kind == "missing":
        detail = f"{inside or whole} needs {name!r}."
        return Diagnostic("Missing key", detail, f"Add {name}.", document.keys.get(first.path[:-1]) or where)
    if first.kind == "extra_forbidden":
        valid = sorted({key for owner in _models_at(model, first.path[:-1]) for key in _keys(owner)})
        close = get_close_matches(str(name), valid, n=1)
        fixes = [f"Did you mean {close[0]}?"] if close else []
        if not close or len(valid) <= _LISTED:
            fixes.append(f"Valid here: {', '.join(valid)}.")
        detail = f"{inside or whole} has no key {name!r}."
        return Diagnostic("Unknown key", detail, " ".join(fixes), where)
    if first.key:
        return Diagnostic(
            "Invalid name", f"{name!r} in {inside} is not a valid name.", f"Write {_wanted(first)}.", where
        )
    if first.kind == "value_error":
        sentence = first.detail["msg"].removeprefix("Value error, ")
        reason, _, fix = sentence.partition("; ")
        detail = f"{dotted(first.path)} is {_written(first, document)}, which {reason}."
        if first.misshapen or not reason.startswith("is "):
            detail = f"{dotted(first.path)} {reason}."
        return Diagnostic("Invalid value", detail, f"{fix[:1].upper()}{fix[1:]}." if fix else "", where)
    wanted = " or ".join(dict.fromkeys(_wanted(fault) for fault in group))
    detail = f"{dotted(first.path)} is {_written(first, document)}; expected {wanted}."
    return Diagnostic("Invalid value", detail, _quick_fix(first, document), where)


def _wanted(fault: SchemaError) -> str:
    context = fault.detail.get("ctx", {})
    if fault.kind == "literal_error":
        return str(context["expected"])
    if fault.kind == "string_pattern_mismatch":
        return _PATTERNS.get(context["pattern"], f"text that matches {context['pattern']}")
    if fault.kind in _RANGES:
        words, bound = _RANGES[fault.kind]
        return words.format(f"{context[bound]:g}")
    return _EXPECTED.get(fault.kind) or fault.detail["msg"]


def _written(fault: SchemaError, document: Document) -> str:
    value = fault.detail["input"]
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    text = document.texts.get(fault.path)
    if value is None or text == "":
        return "empty"
    shown = str(value) if text is None else text
    shown = shown if len(shown) <= 60 else f"{shown[:57]}…"
    return f"{shown!r}" if isinstance(value, str) else shown


def _quick_fix(fault: SchemaError, document: Document) -> str:
    if fault.kind == "tuple_type" and not isinstance(fault.detail["input"], dict | list | None):
        return f"Write [{_written(fault, document).strip(_QUOTES)}]."
    return ""


def _models_at(annotation: object, path: Where) -> Iterator[type[BaseModel]]:
    """The sections of the schema that the path leads to; several where a union allows several."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if not path:
            yield annotation
        elif (field := _keys(annotation).get(str(path[0]))) is not None:
            yield from _models_at(field.annotation, path[1:])
        return
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        for argument in arguments:
            yield from _models_at(argument, path)
    elif origin is not None and path and isinstance(origin, type) and issubclass(origin, Mapping | tuple):
        yield from _models_at(arguments[1 if issubclass(origin, Mapping) else 0], path[1:])


def _keys(model: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """The keys of a section as files write them."""
    return {field.alias or name: field for name, field in model.model_fields.items()}
