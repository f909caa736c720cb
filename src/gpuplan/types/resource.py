"""Desired resources and the circumstances in which a room compares them with a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Location
from gpuplan.types.value import JsonObject, KnownAfterApply, Secret, digest, to_json

# The record: what a node remembers of the last apply of one plan file.


@dataclass(frozen=True)
class Recorded:
    """One resource as it was last applied."""

    digest: str
    spec: Any
    """The kind's own dataclass, as in `Desired`."""
    needs: tuple[Address, ...] = ()


@dataclass(frozen=True)
class Record:
    """Everything one node remembers of one plan file; empty where it was never applied."""

    plan: str
    run: str = ""
    who: str = ""
    when: str = ""
    """Time of the last apply, ISO 8601 in UTC."""
    boot: str = ""
    """The node's boot id when it was last found to be as applied; empty where an older version wrote the record."""
    resources: Mapping[Address, Recorded] = field(default_factory=dict)
    remembered: Mapping[Address, JsonObject] = field(default_factory=dict)
    """What the rooms asked to be remembered of a resource or part, such as where a slice was placed."""
    key: str = field(default="", repr=False)
    """The random key of the keyed digests of secrets, made on the first need; it lies only here, readable by root."""
    bystanders: tuple[str, ...] = ()
    """What gpuplan did not make but saw at the end of the last apply, as `kind/name`."""

    @property
    def empty(self) -> bool:
        """True where this plan file was never applied to the node."""
        return not self.run


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
    """Globs over the addresses that are replaced even if unchanged."""
