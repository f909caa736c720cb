"""The change set: what `gpuplan plan` prints, `--out` saves, and `gpuplan apply` runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuplan.types.address import Address
from gpuplan.types.change import Change, Unmanaged, Unreadable
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.resource import Desired

KIND = "gpuplan change set"
"""What the JSON form of a change set says it is."""
FORMAT = 1
"""Version of the JSON form of a change set; raised when a reader of the old form would misread the new."""


@dataclass(frozen=True)
class NodeChanges:
    """Everything about one node: its changes, in the order of their steps, and what was seen or not seen."""

    node: str
    changes: tuple[Change, ...] = ()
    order: tuple[str, ...] = ()
    """Step ids in the order in which they run."""
    unmanaged: tuple[Unmanaged, ...] = ()
    unknown: tuple[Unreadable, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    rests_on: Mapping[Address, str] = field(default_factory=dict)
    desired: tuple[Desired, ...] = ()
    """What was wanted, so that a saved change set can be checked and verified without the plan file."""
    resources: int = 0
    """How many resources were compared."""


@dataclass(frozen=True)
class ChangeSet:
    """All changes of one run."""

    plan: str
    plan_file: str
    """Path of the plan file, as given; model sources lie beside it."""
    run: str
    """Identity of this change set; becomes the run id of the apply."""
    created: str
    """ISO 8601, UTC."""
    nodes: tuple[NodeChanges, ...] = ()
    destroy: bool = False
    only: tuple[str, ...] = ()
    """The kinds that it is confined to; empty = all of them."""
    targets: tuple[str, ...] = ()
    """Globs over the addresses that it is confined to; empty = all of them."""
    replace: tuple[str, ...] = ()
    """Globs over the addresses that it makes anew whether they differ or not."""

    @property
    def empty(self) -> bool:
        """True where no node has a change."""
        return not any(node.changes for node in self.nodes)
