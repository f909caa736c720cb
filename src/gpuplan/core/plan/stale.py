"""Stale: whether a node is still as it was when a change set was made of it."""

from __future__ import annotations

from gpuplan.types.address import Address
from gpuplan.types.changeset import NodeChanges
from gpuplan.types.diagnostic import Diagnostic


def moved(planned: NodeChanges, fresh: NodeChanges) -> tuple[Diagnostic, ...]:
    """What the change set rests on and is no longer so; empty = it can be applied."""
    addresses = {**planned.rests_on, **fresh.rests_on}
    return tuple(
        _moved(address) for address in addresses if planned.rests_on.get(address) != fresh.rests_on.get(address)
    )


def _moved(address: Address) -> Diagnostic:
    if address.kind == "record":
        detail = f"The plan file {address.name} was applied to {address.node} by another run since."
    else:
        detail = "It is no longer as it was when the change set was made."
    return Diagnostic(
        "The change set is stale",
        detail,
        "Nothing was done on this node. Plan again, and review what has become of it.",
        address=str(address),
    )
