"""How a value of a resource is shown: short, in one row, and unambiguous."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import takewhile

from gpuplan.output.text import visible
from gpuplan.types.change import FieldChange
from gpuplan.types.value import PRIVATE, Json, KnownAfterApply

MAX_LENGTH = 240
"""Characters of a value that are shown; a longer one is cut to its difference, or its beginning and end."""
CONTEXT = 24
"""Characters shown before the first difference of two long values."""
NOTHING = "(none)"

_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
_MISTAKABLE = re.compile(r"^(true|false|null|\(.*\)|[-+]?[\d_]*\.?\d+([eE][-+]?\d+)?|[\[{\"'].*)?$", re.DOTALL)


def format_value(value: Json | KnownAfterApply) -> str:
    """A string bare unless that is ambiguous, everything else as JSON."""
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


def format_one(value: Json | KnownAfterApply, sensitive: bool = False) -> str:
    """One value; a long one is cut in the middle."""
    if sensitive:
        return PRIVATE
    text = format_value(value)
    if len(text) <= MAX_LENGTH:
        return text
    half = MAX_LENGTH // 2
    return f"{text[:half]} … {text[-half:]} ({len(text)} characters)"


def format_change(change: FieldChange) -> tuple[str, str]:
    """Before and after; of long values only the part that differs."""
    if change.sensitive:
        return PRIVATE, f"{PRIVATE} changed"
    before, after = format_value(change.before), format_value(change.after)
    if len(before) <= MAX_LENGTH and len(after) <= MAX_LENGTH:
        return before, after
    agree = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    start = agree - CONTEXT if agree > 2 * CONTEXT else 0
    return _excerpt(before, start), _excerpt(after, start)


def _excerpt(text: str, start: int) -> str:
    part = text[start : start + MAX_LENGTH]
    lead = "… " if start else ""
    tail = " …" if start + MAX_LENGTH < len(text) else ""
    note = f" ({len(text)} characters)" if lead or tail else ""
    return f"{lead}{part}{tail}{note}"


def _json(value: Json) -> str:
    return visible(json.dumps(value, ensure_ascii=False, default=_plain))


def _plain(value: object) -> object:
    """Read-only mappings as JSON, anything else as text."""
    return dict(value) if isinstance(value, Mapping) else str(value)


def _short_digests(text: str) -> str:
    return _DIGEST.sub(r"\1…", text)
