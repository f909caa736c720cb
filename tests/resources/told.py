"""A comparison in the form in which the cases of a room expect it; what is empty is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuplan.types.change import Change, Comparison


def told(comparison: Comparison) -> dict[str, Any]:
    """Changes by name, who else is there, and what is not known."""
    return _stated(
        changes={change.address.name: _change(change) for change in comparison.changes},
        unmanaged=[f"{each.address.name}: {each.what}" for each in comparison.unmanaged],
        unknown={each.address.name: each.diagnostic.detail for each in comparison.unknown},
        impossible=[f"{each.summary}: {each.detail} {each.fix}" for each in comparison.diagnostics],
    )


def _change(change: Change) -> dict[str, Any]:
    return _stated(
        action=change.action.value,
        fields={field.path: [field.before, field.after] for field in change.fields},
        reasons=list(change.reasons),
        interrupts=list(change.interrupts),
        disturbs=[str(each).partition("/")[2] for each in change.disturbs],
        cause=str(change.cause).partition("/")[2] if change.cause else None,
        steps=[step.title for step in change.steps],
    )


def _stated(**parts: Any) -> dict[str, Any]:
    return {name: part for name, part in parts.items() if part}


def checked(stated: Mapping[str, Any], known: str) -> Mapping[str, Any]:
    """The same, unless it has a key that nobody reads."""
    assert set(stated) <= set(known.split()), f"unknown keys {sorted(set(stated) - set(known.split()))}"
    return stated
