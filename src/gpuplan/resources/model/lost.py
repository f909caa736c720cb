"""A server that has lost its models, all of them: one finding, from which what is wrong with each model follows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuplan.resources.model.situation import Situation
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, FieldChange
from gpuplan.types.resource import DiffContext

_FRACTION = re.compile(r"\.\d+")


def lost(
    found: Situation, changes: Mapping[Address, Change], wanted: Sequence[Address], context: DiffContext
) -> Mapping[Address, Change]:
    """The changes of one server's models with their common root, where it has none of those that it had."""
    server, home = found.server, Address(context.node, "model", found.container.name)
    had = [address for address in wanted if address in context.record.resources]
    if server is None or found.disturbed or len(had) < 2 or any(address not in changes for address in had):
        return changes
    if any(server.loaded(address.name.partition("/")[2]) for address in had):
        return changes
    root = Change(
        home,
        Action.UPDATE,
        fields=(FieldChange("loaded", f"0 of {len(had)}", f"{len(had)} of {len(had)}"),),
        reasons=(_why(found, len(had), context),),
    )
    return {home: root} | {address: replace(each, cause=home) for address, each in changes.items()}


def _why(found: Situation, count: int, context: DiffContext) -> str:
    started, applied = _comparable(found.started), _comparable(context.record.when)
    if started and applied and started > applied:
        at = f"{started.replace('T', ' ')} UTC"
        return f"0 of {count} models are loaded since {found.container.name} was started at {at}, after the last apply"
    return f"0 of {count} models are loaded, and {found.container.name} was not started anew since the last apply"


def _comparable(stamp: str) -> str:
    """A time of an engine or of a record, both in UTC, to the second; empty where it is none."""
    plain = _FRACTION.sub("", stamp).removesuffix("Z").removesuffix("+00:00")
    return plain if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", plain) else ""
