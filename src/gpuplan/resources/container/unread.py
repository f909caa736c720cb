"""Unread: what is said of containers when the engine, a GPU that they need, or the record could not be read."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.types.address import Address
from gpuplan.types.change import Comparison, Unknown
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import ProbeError

_FIXES = {
    "no_docker": "Install Docker on the node, or start it: systemctl start docker.",
    "docker_refused": "Start the engine: systemctl start docker; then look at journalctl -u docker.",
    "no_permission": "Put the user into the group docker, or set ansible_become: true in the inventory.",
    "timeout": "The engine hangs; look at journalctl -u docker, and restart it if need be.",
}


def unread(desired: Sequence[Desired], error: ProbeError, context: DiffContext) -> Comparison:
    """Every container that is wanted or was applied is unknown."""
    recorded = (address for address in context.record.resources if address.kind == "container")
    addresses = dict.fromkeys((*(each.address for each in desired), *recorded))
    return Comparison(unknown=tuple(Unknown(address, _engine(address, error)) for address in addresses))


def unresolved(address: Address, parts: Sequence[str]) -> Unknown:
    """A container whose devices cannot be told."""
    return Unknown(
        address,
        Diagnostic(
            "The GPUs of a container could not be told",
            f"{', '.join(parts)} could not be read on {address.node}, so {address.name} was not compared.",
            "See what is said of the node's GPUs.",
            address=str(address),
        ),
    )


def spec_unread(address: Address, fault: ValueError) -> Unknown:
    """A container whose spec, as a record or a saved change set keeps it, is of another form."""
    return Unknown(
        address,
        Diagnostic(
            "What was applied of a container could not be read",
            f"The spec of {address.name} is not of a form that this version of gpuplan knows ({_where(fault)}), so it "
            "was not compared.",
            "Another version may have written it: use that one, or apply the plan file again with this one.",
            address=str(address),
        ),
    )


def before_unread(desired: Desired, fault: ValueError) -> Diagnostic:
    """The record's spec is of another form; the container is compared with the plan file alone."""
    address = desired.address
    return Diagnostic(
        "What was applied of a container could not be read",
        f"The record of {address.name} is not of a form that this version of gpuplan knows ({_where(fault)}); what the "
        "plan file stated then and does not state now is left as it is.",
        "Apply the plan file: that writes the record anew.",
        where=desired.where,
        address=str(address),
        severity=Severity.WARNING,
    )


def _where(fault: ValueError) -> str:
    """The fields at fault; never their values, which may be private."""
    from pydantic import ValidationError

    if not isinstance(fault, ValidationError):
        return str(fault)
    return ", ".join(sorted({".".join(map(str, error["loc"][:2])) for error in fault.errors(include_input=False)}))


def _engine(address: Address, error: ProbeError) -> Diagnostic:
    return Diagnostic(
        "The Docker engine could not be asked",
        f"Docker on {address.node}: {error.text}",
        _FIXES.get(error.code, "Try docker info on the node."),
        address=str(address),
    )
