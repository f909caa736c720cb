"""Changes and their steps: the difference of one resource, and the acts that remove it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.resource import Desired
from gpuplan.types.value import Json, KnownAfterApply


class Action(enum.Enum):
    """What happens to a resource; the value is the sign shown in every view."""

    CREATE = "+"
    UPDATE = "~"
    REPLACE = "±"
    DELETE = "-"


class Verb(enum.Enum):
    """What one step does. The set is closed: kinds grow, verbs do not."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True)
class FieldChange:
    """One field of a resource: what it is and what it will be. `path` is dotted: ``env.LOG``, ``slices.cls-a``."""

    path: str
    before: Json
    after: Json | KnownAfterApply
    sensitive: bool = False
    """Neither value is ever shown; the room puts none in where this is set."""


@dataclass(frozen=True)
class Step:
    """One operation on a node.

    The five address sets decide the order: a step that `makes` X runs before each step that `uses` X; a step that
    `releases` X runs before the step that `frees` X; and `frees` X before `makes` X. If a step fails, the steps that
    wait for it are skipped. A step that comes `after` X waits for the step that makes X, but runs even if that failed.
    """

    name: str
    """Unique within its change, such as ``destroy-slices``."""
    address: Address
    verb: Verb
    title: str
    """What the operator reads: “create slice cls-a (3g.40gb at 4)”."""
    payload: Any = field(default_factory=dict)
    """What the kind's `apply` needs: one of the frozen dataclasses that the kind lists as `payload_types`."""
    sequence: str = ""
    """Steps of one change and one sequence run in order, and a failed one skips the rest of its sequence only: each
    GPU of a resource with several GPUs has its own."""
    concurrency_group: str = ""
    """Steps of one group may run at the same time. A step without a group runs alone."""
    max_parallel: int = 0
    """How many steps of the group may run while this one runs, itself included; 0 = no limit of its own."""
    makes: tuple[Address, ...] = ()
    uses: tuple[Address, ...] = ()
    releases: tuple[Address, ...] = ()
    frees: tuple[Address, ...] = ()
    after: tuple[Address, ...] = ()

    @property
    def id(self) -> str:
        """Unique within a change set."""
        return f"{self.address}:{self.name}"


class Origin(enum.Enum):
    """Why a resource differs: the node moved, or the plan file did."""

    DRIFT = "drift"
    PENDING = "pending"


@dataclass(frozen=True)
class Change:
    """The difference of one resource."""

    address: Address
    action: Action
    fields: tuple[FieldChange, ...] = ()
    reasons: tuple[str, ...] = ()
    """Why, in full sentences without a full stop. They explain; they never decide."""
    interrupts: tuple[str, ...] = ()
    """What stops serving during the change: “container triton-cls stops”. Empty = nothing."""
    disturbs: Mapping[Address, str] = field(default_factory=dict)
    """Resources and parts whose identity or presence changes → why; what needs them must follow."""
    cause: Address | None = None
    """The resource whose change forces this one, where it is not its own."""
    steps: tuple[Step, ...] = ()
    origin: Origin | None = None
    """Set by the room where it knows better than the digests of specs: a secret that was rotated is no drift."""


@dataclass(frozen=True)
class Unmanaged:
    """Something on the node that this plan file did not make; it is named and never touched."""

    address: Address
    what: str
    in_the_way_of: Address | None = None
    """The wanted resource that cannot be made because of it; the guard of that name refuses."""
    guard: str = ""
    """The guard that refuses, such as ``unmanaged-slice``; empty if it blocks nothing."""
    sees: tuple[Address, ...] = ()
    """GPUs and slices of this plan file that a container which runs could compute on: isolation is broken."""
    as_wanted: bool = False
    """It stands for a resource of this plan file, and is as that is wanted."""


@dataclass(frozen=True)
class Unreadable:
    """A part of the node that could not be read. No change is ever planned from it."""

    address: Address
    diagnostic: Diagnostic
    cause: Address | None = None
    """What it needs and could not be read either: the reason to look at, where this one is only a consequence."""


@dataclass(frozen=True)
class Comparison:
    """What one room says about one node."""

    changes: tuple[Change, ...] = ()
    bindings: Mapping[Address, str | KnownAfterApply] = field(default_factory=dict)
    unmanaged: tuple[Unmanaged, ...] = ()
    unknown: tuple[Unreadable, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    """What makes the plan impossible here: a profile that this GPU does not have, a name that is taken."""
    rests_on: Mapping[Address, str] = field(default_factory=dict)
    """Digest of what was observed, for each resource that was compared: a saved change set is stale when one moved."""


# The change set: what `gpuplan plan` prints, `--out` saves, and `gpuplan apply` runs.

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
    """Path of the plan file, as given; model sources are next to it."""
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
    """Globs over the addresses that it replaces even if unchanged."""

    @property
    def empty(self) -> bool:
        """True where no node has a change."""
        return not any(node.changes for node in self.nodes)
