"""What a room is: one resource kind behind four doors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Generic, Protocol, TypeVar

from gpuplan.types.address import Address
from gpuplan.types.change import Comparison, Step
from gpuplan.types.content import Arrived, Content
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import JsonObject

if TYPE_CHECKING:
    import docker

    from gpuplan.planfile.schema import PlanFile
    from gpuplan.types.diagnostic import Diagnostic
    from gpuplan.types.inventory import Host

Observed = TypeVar("Observed")
Told = tuple[Sequence[Desired], Sequence["Diagnostic"]]


Memory = Iterable[tuple[Address, JsonObject | None]]
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

    def send(self, contents: Sequence[Content], arrived: Arrived) -> None:
        """Bring contents to the node, which checks their SHA-256 and refuses one that differs as `corrupt`."""
        ...

    def source(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Open a file that lies beside the plan file, by the relative path of a spec."""
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

    def remember(self, facts: Memory) -> None:
        """Have the node remember something before the act that it is about, so that it is known if the act is cut off.

        What the door returns is remembered when the step has ended.
        """
        ...

    def went_back(self, part: Address) -> None:
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


def _nothing(steps: Sequence[Step], apply_context: ApplyContext) -> None:
    """What a room foresees that has nothing to look at."""


def _as_made(made: JsonObject, before: JsonObject, part: str) -> JsonObject:
    """The spec of a resource of which no part is ever taken back."""
    del before, part
    return made


@dataclass(frozen=True)
class Kind(Generic[Observed]):
    """One resource kind. `spec`, `read` and `diff` are pure; only `apply` acts."""

    kind: str
    probes: tuple[str, ...]
    """Which probes of the snapshot it reads."""
    spec: Callable[[PlanFile, Host], Told]
    """Plan file and node → the desired resources of this kind there, and what is wrong with them."""
    read: Callable[[Snapshot], Observed]
    """Snapshot → what is there. Never raises: what could not be read is part of the answer."""
    diff: Callable[[Sequence[Desired], Observed, DiffContext], Comparison]
    """Desired and observed → changes with their steps."""
    apply: Callable[[Step, ApplyContext], Memory]
    """Do one step, look again, and raise Problem unless the second look says that it is so."""
    foresee: Callable[[Sequence[Step], ApplyContext], None] = _nothing
    """All its steps on a node, before the first one: raise Problem where something makes them impossible, such as a
    disk that is too small, so that nothing is interrupted for what cannot be finished."""
    also: tuple[str, ...] = ()
    """Further kinds of address that its changes and steps have: what it brings along for its own resources."""
    went_back: Callable[[JsonObject, JsonObject, str], JsonObject] = _as_made
    """Spec as made, spec as recorded before (or nothing), name of a part → the spec of what is there once that part is
    again as it was before."""
    asks: Callable[[Sequence[Desired]], Sequence[str]] = lambda _: ()
    """Images whose registries are to be asked before it compares: only what the plan file states that of."""

    def compare(self, desired: Sequence[Desired], snapshot: Snapshot, diff_context: DiffContext) -> Comparison:
        """Read and diff in one go: what the flow calls, since it need not know what a room observes."""
        return self.diff(desired, self.read(snapshot), diff_context)
