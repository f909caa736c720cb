"""How one value of a resource is written: short, in one row, and never mistaken for another."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import takewhile

from gpuplan.output.escape import visible
from gpuplan.types.change import FieldChange
from gpuplan.types.value import PRIVATE, Json, KnownAfterApply

LONGEST = 240
"""Characters of one value that are shown; of a longer one only what differs, or its beginning and end."""
CONTEXT = 24
"""Characters that are shown before the first difference of two long values."""
NOTHING = "(none)"

_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
_MISTAKABLE = re.compile(r"^(true|false|null|\(.*\)|[-+]?[\d_]*\.?\d+([eE][-+]?\d+)?|[\[{\"'].*)?$", re.DOTALL)


def written(value: Json | KnownAfterApply) -> str:
    """The value as an operator reads it: strings bare unless that could be misread, all else as JSON."""
    if value is None:
        return NOTHING
    if isinstance(value, KnownAfterApply):
        return visible(str(value))
    if isinstance(value, str):
        bare = value == value.strip() and not _MISTAKABLE.match(value)
        return _short_digests(visible(value) if bare else _json(value))
    if isinstance(value, Mapping) and set(value) == {"secret"}:
        return visible(f"{PRIVATE} {value['secret']}")
    return _short_digests(_json(value))


def one_side(value: Json | KnownAfterApply, sensitive: bool = False) -> str:
    """One value alone, cut in the middle where it is long."""
    if sensitive:
        return PRIVATE
    text = written(value)
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]} … {text[-half:]} ({len(text)} characters)"


def both_sides(change: FieldChange) -> tuple[str, str]:
    """Before and after; of long values the part in which they differ."""
    if change.sensitive:
        return PRIVATE, f"{PRIVATE} changed"
    before, after = written(change.before), written(change.after)
    if len(before) <= LONGEST and len(after) <= LONGEST:
        return before, after
    agree = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    start = agree - CONTEXT if agree > 2 * CONTEXT else 0
    return _from(before, start), _from(after, start)


def _from(text: str, start: int) -> str:
    part = text[start : start + LONGEST]
    lead = "… " if start else ""
    tail = " …" if start + LONGEST < len(text) else ""
    note = f" ({len(text)} characters)" if lead or tail else ""
    return f"{lead}{part}{tail}{note}"


def _json(value: Json) -> str:
    return visible(json.dumps(value, ensure_ascii=False, default=_plain))


def _plain(value: object) -> object:
    """What json does not know of our values: read-only mappings and tuples are covered, the rest is text."""
    return dict(value) if isinstance(value, Mapping) else str(value)


def _short_digests(text: str) -> str:
    return _DIGEST.sub(r"\1…", text)
