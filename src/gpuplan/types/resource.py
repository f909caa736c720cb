"""Desired resources and the circumstances in which a room compares them with a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Location
from gpuplan.types.record import Record
from gpuplan.types.value import JsonObject, KnownAfterApply, Secret, digest, to_json


@dataclass(frozen=True)
class Desired:
    """One resource that the plan file implies on one node.

    `spec` is the kind's own frozen dataclass (`Kind.spec_type`). It holds references to secrets, never their text:
    the node's record and a saved change set keep its JSON.
    """

    address: Address
    spec: Any
    needs: tuple[Address, ...] = ()
    """Resources or parts of other resources that must be there first."""
    where: Location | None = None
    """Where the plan file says so; for messages only, not part of the identity."""
    proof: JsonObject | None = None
    """How it is put to the proof right after a step has made it so. Like `where` no part of what is compared, recorded
    and digested: another proof changes nothing on the node."""

    @property
    def digest(self) -> str:
        """Digest of what is wanted, as the node's record keeps it."""
        return digest({"spec": to_json(self.spec), "needs": [str(need) for need in self.needs]})


@dataclass(frozen=True)
class DiffContext:
    """What a room may know beyond its own resources when it compares."""

    node: str
    plan: str
    """The name of the plan file: the owner written on everything it makes."""
    record: Record
    """What the node remembers of the last apply of this plan file."""
    bindings: Mapping[Address, str | KnownAfterApply] = field(default_factory=dict)
    """What earlier rooms resolved: the UUID of a GPU or of a slice, by address."""
    disturbed: Mapping[Address, str] = field(default_factory=dict)
    """Resources and parts whose identity or presence changes in this change set → because of what."""
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    """Resolved secrets by reference."""
    replace: tuple[str, ...] = ()
    """Globs over the addresses that are to be made anew whether they differ or not."""
