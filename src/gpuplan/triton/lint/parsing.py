"""Checks of a config.pbtxt's text: what is no config at all, and what stands in the wrong place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuplan.triton import model_config, model_config_text
from gpuplan.triton.lint.check import Check, Effect, Family
from gpuplan.triton.model_config_tokens import without_comments
from gpuplan.types.diagnostic import Diagnostic, Location, Severity

if TYPE_CHECKING:
    from google.protobuf.message import Message

SUMMARY = "Not a valid config.pbtxt"
SYNTAX = Check("config-syntax", SUMMARY, Effect.REFUSED, fixed=True)
FIELD = Check("config-field", SUMMARY, Effect.REFUSED, fixed=True)
ENUM = Check("config-enum", SUMMARY, Effect.REFUSED, fixed=True)
VALUE = Check("config-value", SUMMARY, Effect.REFUSED, fixed=True)
DUPLICATE = Check("config-duplicate", SUMMARY, Effect.REFUSED, fixed=True)
CHOICE = Check("config-choice", SUMMARY, Effect.REFUSED, fixed=True)
PLACEHOLDER = Check("config-placeholder", "A placeholder was never filled in", Effect.REFUSED, fixed=True)
FAMILY = Family((SYNTAX, FIELD, ENUM, VALUE, DUPLICATE, CHOICE, PLACEHOLDER))

_BY_KIND = {"syntax": SYNTAX, "field": FIELD, "enum": ENUM, "value": VALUE, "duplicate": DUPLICATE, "choice": CHOICE}
_FIXES = {
    "duplicate": "Keep one of them; what belongs together goes into one block.",
    "choice": "Keep one of them.",
}
_LOG = "Correct the file; Triton would refuse it too, and tell the reason only in its log."


@dataclass(frozen=True)
class Parsed:
    """What a text is: a config where it is one, where its fields stand, and what is wrong with it."""

    message: Message | None
    reading: model_config_text.Reading = field(default_factory=model_config_text.Reading)
    faults: tuple[Diagnostic, ...] = ()


def parse(text: str, file: str) -> Parsed:
    """Read one config.pbtxt; the message is None where Triton would refuse the text."""
    if unfilled := tuple(_unfilled(text, file)):
        return Parsed(None, faults=unfilled)
    reading = model_config_text.read(text)
    try:
        message = model_config.parse(text)
    except model_config.Unparsable as fault:
        told = [_told(each, file) for each in reading.faults]
        own = SYNTAX.at(Location(file, fault.line, fault.column), f"{fault.text}.", _LOG)
        return Parsed(None, reading, tuple(told or [own]))
    # Protobuf takes a second value where the first one is the field's default; nobody means that.
    twice = [_told(each, file, Severity.WARNING) for each in reading.faults if each.kind == "duplicate"]
    return Parsed(message, reading, tuple(twice))


def _told(fault: model_config_text.Fault, file: str, severity: Severity | None = None) -> Diagnostic:
    where = Location(file, *fault.place)
    return _BY_KIND[fault.kind].at(where, f"{fault.text}.", _FIXES.get(fault.kind, _LOG), severity)


def _unfilled(text: str, file: str) -> Iterator[Diagnostic]:
    for match in re.finditer(r"\$\{[^}\n]*\}?", without_comments(text)):
        yield PLACEHOLDER.at(
            place(text, match.start(), file),
            f"{match[0]} stands where Triton wants a value.",
            "Fill in the template, or state the field under `config:` in the plan file and take it out here.",
        )


def place(text: str, offset: int, file: str) -> Location:
    """The line and column of an offset in a text."""
    line = text.count("\n", 0, offset) + 1
    return Location(file, line, offset - (text.rfind("\n", 0, offset) + 1) + 1)
