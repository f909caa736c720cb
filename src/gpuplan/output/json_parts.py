"""The JSON of what change sets, outcomes and drift reports have in common, described field by field in docs/json.md."""

from __future__ import annotations

from gpuplan.types.address import Address
from gpuplan.types.change import Change, FieldChange, Unmanaged, Unreadable
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.value import JsonObject, KnownAfterApply


def diagnostic(one: Diagnostic) -> JsonObject:
    """One diagnostic."""
    where = one.where
    return {
        "severity": one.severity.value,
        "summary": one.summary,
        "detail": one.detail,
        "fix": one.fix,
        "address": one.address,
        "check": one.check,
        "where": {"file": where.file, "line": where.line, "column": where.column} if where else None,
    }


def change(one: Change) -> JsonObject:
    """One change without its steps."""
    return {
        "address": str(one.address),
        "action": one.action.name.lower(),
        "origin": one.origin.value if one.origin else None,
        "cause": maybe(one.cause),
        "fields": [_field(field) for field in one.fields],
        "reasons": list(one.reasons),
        "interrupts": list(one.interrupts),
    }


def unmanaged(one: Unmanaged) -> JsonObject:
    """Something that this plan file did not make."""
    return {
        "address": str(one.address),
        "what": one.what,
        "in_the_way_of": maybe(one.in_the_way_of),
        "guard": one.guard,
        "sees": [str(each) for each in one.sees],
        "as_wanted": one.as_wanted,
    }


def unknown(one: Unreadable) -> JsonObject:
    """Something that could not be read."""
    return {"address": str(one.address), "cause": maybe(one.cause), "diagnostic": diagnostic(one.diagnostic)}


def _field(one: FieldChange) -> JsonObject:
    later = one.after if isinstance(one.after, KnownAfterApply) else None
    return {
        "path": one.path,
        "before": one.before,
        "after": None if isinstance(one.after, KnownAfterApply) else one.after,
        "after_known_later": later.what if later else None,
        "sensitive": one.sensitive,
    }


def maybe(address: Address | None) -> str | None:
    """An address, or null."""
    return str(address) if address else None
