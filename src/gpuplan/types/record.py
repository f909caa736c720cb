"""The record: what a node remembers of the last apply of one plan file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuplan.types.address import Address
from gpuplan.types.value import JsonObject


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
