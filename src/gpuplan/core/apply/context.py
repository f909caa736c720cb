"""The apply context: what a kind's `apply` may do on its node, over the node's session."""

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
    """Keeps the node's record while steps run."""

    def write_facts(self, facts: Facts) -> None:
        """Write facts to the record now."""
        ...

    def seal(self, *texts: str) -> str:
        """The keyed digest by which a secret is recognised later."""
        ...

    def rolled_back(self, part: Address) -> None:
        """Record a part of a resource as it was before this run."""
        ...


class NodeContext:
    """`ApplyContext` for one step on one node (`resources/kind.py` documents the methods)."""

    def __init__(
        self,
        session: Session,
        plan: str,
        base: Path,
        secrets: Mapping[str, Secret],
        say: Callable[[str], None],
        progress: Callable[[str, Amount], None] = lambda *_: None,
        keeper: Keeper | None = None,
    ) -> None:
        self.node = session.node
        self.plan = plan
        self._session = session
        self._base = base
        self._secrets = secrets
        self._say = say
        self._progress = progress
        self._keeper = keeper

    def agent(self, operation: str, **arguments: object) -> JsonObject:
        """One operation of docs/agent.md."""
        return self._session.agent(operation, **arguments)

    def missing(self, digests: Sequence[str]) -> Mapping[str, int]:
        """The digests whose content the node lacks, each with the bytes that it has of it."""
        arrived = as_object(self._session.agent("blob.missing", digests=list(digests))["arrived"])
        return {digest: size for digest, size in arrived.items() if isinstance(size, int)}

    def send(self, contents: Sequence[Content], arrived: OnArrived) -> None:
        """Send contents to the node."""
        self._session.send(contents, arrived)

    @contextmanager
    def source(self, path: str) -> Iterator[BinaryIO]:
        """Open a file by its path relative to the plan file."""
        try:
            content = (self._base / path).open("rb")
        except OSError as error:
            raise Problem(
                Diagnostic(
                    "Cannot read a source file",
                    f"{self._base / path}: {error.strerror or error}.",
                    "Restore the file, or run gpuplan plan again.",
                )
            ) from error
        with content:
            yield content

    def docker(self) -> docker.APIClient:
        """The node's Docker engine."""
        return self._session.docker()

    def forward(self, port: int, host: str = "127.0.0.1") -> AbstractContextManager[str]:
        """A local address that reaches a port of the node."""
        return self._session.forward(port, host)

    def look(self, *probes: str) -> Snapshot:
        """Read the named probes again."""
        return read_probes(self._session, self.plan, probes)

    def secret(self, reference: str) -> str:
        """The text behind a secret reference."""
        return self._secrets[reference].reveal()

    def seal(self, *texts: str) -> str:
        """The keyed digest of a secret."""
        return self._keeper.seal(*texts) if self._keeper else ""

    def remember(self, facts: Facts) -> None:
        """Write facts to the node's record now."""
        if self._keeper:
            self._keeper.write_facts(facts)

    def rolled_back(self, part: Address) -> None:
        """Record a part of another resource as it was before this run."""
        if self._keeper:
            self._keeper.rolled_back(part)

    def say(self, text: str) -> None:
        """Show a line of progress and keep it in the transcript."""
        self._say(text)

    def progress(self, text: str, done: int, total: int) -> None:
        """Show progress in bytes."""
        self._progress(text, Amount(done, total))
