"""Guards: named vetoes on a change set, each lifted only by its name (`--allow NAME`)."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.types.address import Address
from gpuplan.types.change import ChangeSet, NodeChanges
from gpuplan.types.diagnostic import Diagnostic

GUARDS = {
    "busy-slice": "a slice that somebody else uses would go",
    "busy-gpu": "a GPU that somebody else uses would change its MIG mode, or be reset",
    "gpu-reset": "a GPU would be reset that a daemon or a kernel module holds",
    "gpu-reboot": "a change would take effect only with a reboot of the node",
    "unmanaged-slice": "a slice that gpuplan did not make is in the way",
}

_REMEDIES = {
    "gpu-reset": "Stop what holds it, write its service under stop_services in the plan file",
    "gpu-reboot": "Leave the GPU as it is until the node can be rebooted",
}
_LAST_REMEDY = "Remove it by hand, change the plan file"


def refusals(change_set: ChangeSet, allow: Sequence[str]) -> tuple[Diagnostic, ...]:
    """What vetoes this change set, apart from the guards that the operator lifted by name."""
    return tuple(refusal for node in change_set.nodes for refusal in node_refusals(node, allow))


def node_refusals(node: NodeChanges, allow: Sequence[str]) -> tuple[Diagnostic, ...]:
    """What vetoes the changes of one node."""
    return tuple(
        Diagnostic(
            f"Refused by the guard {unmanaged.guard}",
            f"{unmanaged.what}; it is in the way of {unmanaged.in_the_way_of}.",
            f"{_REMEDIES.get(unmanaged.guard, _LAST_REMEDY)}, or lift the guard: --allow {unmanaged.guard}",
            address=str(unmanaged.address),
        )
        for unmanaged in node.unmanaged
        if unmanaged.guard and unmanaged.guard not in allow
    )


# Stale: whether a node is still as it was when a change set was made of it.


def stale_diagnostics(planned: NodeChanges, fresh: NodeChanges) -> tuple[Diagnostic, ...]:
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
