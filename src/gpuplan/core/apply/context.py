"""Hands: what an apply door may do on its node, over the node's one session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from gpuplan.core.plan.observe import read_probes
from gpuplan.resources.kind import Facts
from gpuplan.transport.session import Session
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.outcome import Amount
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import Content, JsonObject, OnArrived, Secret, as_object

if TYPE_CHECKING:
    import docker


class Keeper(Protocol):
    """What keeps the node's record while steps run."""

    def note(self, facts: Facts) -> None:
        """Have the node remember facts at once."""
        ...

    def seal(self, *texts: str) -> str:
        """The keyed digest by which a secret of a container is known again."""
        ...

    def rolled_back(self, part: Address) -> None:
        """Say of a part of a resource what was recorded before this run."""
        ...


class NodeContext:
    """What one step may use on its node; its progress is shown live and kept in the step's transcript."""

    def __init__(
        self,
        session: Session,
        plan: str,
        base: Path,
        secrets: Mapping[str, Secret],
        tell: Callable[[str], None],
        measure: Callable[[str, Amount], None] = lambda *_: None,
        keeper: Keeper | None = None,
    ) -> None:
        self.node = session.node
        self.plan = plan
        self._session = session
        self._base = base
        self._secrets = secrets
        self._tell = tell
        self._measure = measure
        self._keeper = keeper

    def agent(self, operation: str, **arguments: object) -> JsonObject:
        """One operation of docs/agent.md."""
        return self._session.agent(operation, **arguments)

    def missing(self, digests: Sequence[str]) -> Mapping[str, int]:
        """Those of the digests whose content the node does not have yet, with the bytes that arrived of each."""
        arrived = as_object(self._session.agent("blob.missing", digests=list(digests))["arrived"])
        return {digest: size for digest, size in arrived.items() if isinstance(size, int)}

    def send(self, contents: Sequence[Content], arrived: OnArrived) -> None:
        """Bring contents to the node."""
        self._session.send(contents, arrived)

    @contextmanager
    def source(self, path: str) -> Iterator[BinaryIO]:
        """Open a file that lies beside the plan file."""
        try:
            content = (self._base / path).open("rb")
        except OSError as fault:
            raise Problem(
                Diagnostic(
                    "A source file cannot be read",
                    f"{self._base / path}: {fault.strerror or fault}.",
                    "Put the file back, or plan again.",
                )
            ) from fault
        with content:
            yield content

    def docker(self) -> docker.APIClient:
        """The node's Docker engine."""
        return self._session.docker()

    def forward(self, port: int, host: str = "127.0.0.1") -> AbstractContextManager[str]:
        """A local address that reaches a port of the node."""
        return self._session.forward(port, host)

    def look(self, *probes: str) -> Snapshot:
        """A second look: only the named probes."""
        return read_probes(self._session, self.plan, probes)

    def secret(self, reference: str) -> str:
        """The text behind a secret reference."""
        return self._secrets[reference].reveal()

    def seal(self, *texts: str) -> str:
        """The keyed digest of a secret."""
        return self._keeper.seal(*texts) if self._keeper else ""

    def remember(self, facts: Facts) -> None:
        """Have the node remember something before the act that it is about."""
        if self._keeper:
            self._keeper.note(facts)

    def rolled_back(self, part: Address) -> None:
        """Have the record say of a part of a resource what it said before this run."""
        if self._keeper:
            self._keeper.rolled_back(part)

    def say(self, text: str) -> None:
        """A word of progress."""
        self._tell(text)

    def progress(self, text: str, done: int, total: int) -> None:
        """How far something has come, in bytes."""
        self._measure(text, Amount(done, total))
