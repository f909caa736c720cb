"""What refuses a change set: guards, lifted by name (`--allow NAME`), and nodes that changed since the plan."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.types.address import Address
from gpuplan.types.change import ChangeSet, NodeChanges
from gpuplan.types.diagnostic import Diagnostic

GUARDS = {
    "busy-slice": "a slice that is in use by something unmanaged would be removed",
    "busy-gpu": "a GPU that is in use by something unmanaged would change its MIG mode or be reset",
    "gpu-reset": "a GPU that is held by a daemon or a kernel module would be reset",
    "gpu-reboot": "a change would take effect only after a reboot of the node",
    "unmanaged-slice": "an unmanaged slice is in the way",
}

_FIXES = {
    "gpu-reset": "Stop the process that holds it, list its service under stop_services in the plan file",
    "gpu-reboot": "Leave the GPU as it is until the node can be rebooted",
}
_DEFAULT_FIX = "Remove it by hand, change the plan file"


def refusals(change_set: ChangeSet, allow: Sequence[str]) -> tuple[Diagnostic, ...]:
    """The guards that refuse this change set, without those that the operator lifted."""
    return tuple(refusal for node in change_set.nodes for refusal in node_refusals(node, allow))


def node_refusals(node: NodeChanges, allow: Sequence[str]) -> tuple[Diagnostic, ...]:
    """The guards that refuse the changes of one node."""
    return tuple(
        Diagnostic(
            f"Refused by guard {unmanaged.guard}",
            f"{unmanaged.what}; it is in the way of {unmanaged.in_the_way_of}.",
            f"{_FIXES.get(unmanaged.guard, _DEFAULT_FIX)}, or lift the guard: --allow {unmanaged.guard}",
            address=str(unmanaged.address),
        )
        for unmanaged in node.unmanaged
        if unmanaged.guard and unmanaged.guard not in allow
    )


def stale_diagnostics(planned: NodeChanges, fresh: NodeChanges) -> tuple[Diagnostic, ...]:
    """Errors for what changed on the node since the change set was made; empty = it can be applied."""
    addresses = {**planned.rests_on, **fresh.rests_on}
    return tuple(
        _stale(address) for address in addresses if planned.rests_on.get(address) != fresh.rests_on.get(address)
    )


def _stale(address: Address) -> Diagnostic:
    if address.kind == "record":
        detail = f"Another run has applied the plan file {address.name} to {address.node} since the plan was made."
    else:
        detail = f"{address} has changed since the plan was made."
    return Diagnostic(
        "The change set is stale",
        f"{detail} Nothing was done on this node.",
        "Run gpuplan plan again and review the new changes.",
        address=str(address),
    )
