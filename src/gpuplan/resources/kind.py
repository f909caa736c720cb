"""What a room is: one resource kind behind four doors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, Protocol, TypeVar

from gpuplan.types.address import Address
from gpuplan.types.change import Comparison, Step
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import Content, JsonObject, OnArrived

if TYPE_CHECKING:
    import docker

    from gpuplan.planfile.schema import PlanFile
    from gpuplan.types.diagnostic import Diagnostic
    from gpuplan.types.inventory import Host

Observed = TypeVar("Observed")
DesiredResources = tuple[Sequence[Desired], Sequence["Diagnostic"]]


Facts = Iterable[tuple[Address, JsonObject | None]]
"""What an apply door asks the node to remember by address; None forgets."""


class ApplyContext(Protocol):
    """What an apply door may use on its node. Everything goes through the node's one connection."""

    node: str
    plan: str

    def agent(self, operation: str, **arguments: object) -> JsonObject:
        """Ask the agent to do one operation of docs/agent.md; raises Refused with its code and words."""
        ...

    def missing(self, digests: Sequence[str]) -> Mapping[str, int]:
        """Those of the SHA-256 digests whose content the node lacks, with the bytes that arrived of each."""
        ...

    def send(self, contents: Sequence[Content], arrived: OnArrived) -> None:
        """Bring contents to the node, which checks their SHA-256 and refuses one that differs as `corrupt`."""
        ...

    def source(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Open a file next to the plan file, by the relative path of a spec."""
        ...

    def docker(self) -> docker.APIClient:
        """The node's Docker engine."""
        ...

    def forward(self, port: int, host: str = "127.0.0.1") -> AbstractContextManager[str]:
        """A local `host:port` that reaches a port of the node (or of an address that the node reaches)."""
        ...

    def look(self, *probes: str) -> Snapshot:
        """A second look at the node: only the named probes."""
        ...

    def secret(self, reference: str) -> str:
        """The text behind a secret reference, for the one call that needs it."""
        ...

    def seal(self, *texts: str) -> str:
        """The keyed digest by which a later look recognises a secret; its key stays in the node's record."""
        ...

    def remember(self, facts: Facts) -> None:
        """Have the node remember something before the act that it is about, so that it is known if the act is cut off.

        What the door returns is remembered when the step has ended.
        """
        ...

    def rolled_back(self, part: Address) -> None:
        """Have the node's record say of a part of a resource what it said before this run: it was undone.

        The resource is that of another step, which is done.
        """
        ...

    def say(self, text: str) -> None:
        """A word of progress; it is shown live and kept in the step's transcript."""
        ...

    def progress(self, text: str, done: int, total: int) -> None:
        """How far something has come, in bytes; it is shown live and kept nowhere."""
        ...


def _no_preflight(steps: Sequence[Step], apply_context: ApplyContext) -> None:
    """The preflight of a kind that has nothing to check."""


def _no_rollback(applied: Any, before: Any, part: str) -> Any:
    """The spec of a resource whose parts are never rolled back by another kind."""
    del before, part
    return applied


def _no_images(desired: Sequence[Desired]) -> Sequence[str]:
    """The images of a kind that looks none up."""
    del desired
    return ()


@dataclass(frozen=True)
class Kind(Generic[Observed]):
    """One resource kind: four functions and an optional preflight. Only `apply` and `preflight` touch a node."""

    name: str
    probes: tuple[str, ...]
    """The probes of the snapshot that `read` uses."""
    desired: Callable[[PlanFile, Host], DesiredResources]
    """Plan file and host → the desired resources of this kind on the host, and the problems with them."""
    read: Callable[[Snapshot], Observed]
    """Snapshot → observed state. Never raises: what could not be read is part of the result."""
    diff: Callable[[Sequence[Desired], Observed, DiffContext], Comparison]
    """Desired and observed state → changes with their steps."""
    apply: Callable[[Step, ApplyContext], Facts]
    """Do one step and verify it by a second look; raises Problem if that does not show the expected result."""
    preflight: Callable[[Sequence[Step], ApplyContext], None] = _no_preflight
    """Check, before the first step on a node, that all steps of this kind can be done (disk space, say); raises
    Problem, so that nothing is interrupted for a change that cannot be finished."""
    spec_type: type[Any] | None = None
    """The dataclass in `Desired.spec`; None = a JSON object."""
    payload_types: tuple[type[Any], ...] = ()
    """The dataclasses in `Step.payload`, by whose names a saved change set is decoded."""
    companion_kinds: tuple[str, ...] = ()
    """Further kinds of address in its changes and steps: containers come with their images."""
    rolled_back: Callable[[Any, Any, str], Any] = _no_rollback
    """Applied spec, spec recorded before this run (or None), name of a part → the spec that is true once another kind
    has rolled that part back (`ApplyContext.rolled_back`)."""
    registry_images: Callable[[Sequence[Desired]], Sequence[str]] = _no_images
    """Images whose digests the registries are asked for before the comparison."""

    def compare(self, desired: Sequence[Desired], snapshot: Snapshot, diff_context: DiffContext) -> Comparison:
        """Read and diff."""
        return self.diff(desired, self.read(snapshot), diff_context)
