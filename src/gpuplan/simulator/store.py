"""Keeps a node's state in one JSON file: atomic, 0600, safe between processes and threads."""

from __future__ import annotations

import fcntl
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpuplan.simulator.state import FORMAT, NodeState, SimulatedContainer, text
from gpuplan.types.diagnostic import Diagnostic, Problem

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_Signature = tuple[int, int, int]


class StateStore:
    """The state of one simulated node. Readers get a value that is not changed later; writers take turns."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = directory / "root"
        """What the agent's root is on this node."""
        self._file = directory / "state.json"
        self._guard = threading.RLock()
        self._discarding = threading.Lock()
        self._seen: tuple[_Signature, NodeState] | None = None
        self._writing: NodeState | None = None
        self._scratch: NodeState | None = None

    @property
    def exists(self) -> bool:
        """True where the node was made before."""
        return self._file.exists()

    def create(self, state: NodeState) -> None:
        """Make the node; one that another process made meanwhile is left as it is."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._guard, self._locked():
            if not self.exists:
                self._save(state)

    def read(self) -> NodeState:
        """The state as it is now; not to be changed.

        Raises:
            Problem: the file is not readable, or is of another version of gpuplan.
        """
        with self._guard:
            if self._scratch is not None:
                return self._scratch
            try:
                signature = self._signature()
            except OSError as error:
                raise Problem(_unreadable(self.directory, error.strerror or str(error))) from None
            if self._seen is None or self._seen[0] != signature:
                self._seen = (signature, self._load())
            return self._seen[1]

    @contextmanager
    def write(self) -> Iterator[NodeState]:
        """The state to change; it is kept when the block ends, and dropped when the block raises."""
        with self._guard:
            if (within := self._scratch or self._writing) is not None:
                yield within
                return
            with self._locked():
                self._writing = self._load()
                try:
                    yield self._writing
                    self._save(self._writing)
                finally:
                    self._writing = None

    @contextmanager
    def discarding(self) -> Iterator[None]:
        """Everything inside seems to work, and leaves no trace: calls that report success and do nothing."""
        with self._discarding:
            self._scratch = self._load()
            try:
                yield
            finally:
                self._scratch = None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self.directory / "state.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _signature(self) -> _Signature:
        status = self._file.stat()
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _load(self) -> NodeState:
        from pydantic import ValidationError

        try:
            state = _adapter().validate_json(self._file.read_bytes())
        except (OSError, ValidationError) as error:
            raise Problem(_unreadable(self.directory, str(error).partition("\n")[0])) from None
        if state.format != FORMAT:
            raise Problem(_unreadable(self.directory, f"it is of format {state.format}, this is {FORMAT}"))
        return state

    def _save(self, state: NodeState) -> None:
        fresh = self._file.with_name(f"state.json.{os.getpid()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_adapter().dump_json(state))
        fresh.replace(self._file)
        self._seen = (self._signature(), state)


@cache
def _adapter() -> TypeAdapter[NodeState]:
    from pydantic import TypeAdapter

    return TypeAdapter(NodeState)


def _unreadable(directory: Path, why: str) -> Diagnostic:
    return Diagnostic(
        "The state of a simulated node cannot be read",
        f"{directory / 'state.json'}: {why}.",
        f"To start with a fresh node, remove the directory {directory}",
        address=directory.name,
    )


# --- The node's name and where its files are. A path outside the node's own directory, such as /mnt/models, is
# `disk/mnt/models` in there; a bucket, such as s3://models/prod, is `buckets/s3/models/prod`. ---

_BUCKET = re.compile(r"^(?P<scheme>s3|gs|as)://(?:(?:https?://)?[^/:]+:\d+/)?(?P<rest>.+)$")


@dataclass(frozen=True)
class Machine:
    """One simulated node; only what lies below `root` exists on it."""

    name: str
    root: Path

    def inside(self, container: SimulatedContainer, path: str) -> Path | None:
        """The real file or directory behind a path inside the container; None where no mount of the node has it.

        The address of a bucket means the bucket.
        """
        if (bucket := _BUCKET.match(path)) is not None:
            return self._below("buckets", f"{bucket['scheme']}/{bucket['rest']}")
        mounts = sorted(container.mounts, key=lambda mount: len(text(mount.get("Destination"))), reverse=True)
        for mount in mounts:
            destination = text(mount.get("Destination")).rstrip("/")
            if path == destination or path.startswith(f"{destination}/"):
                return self.file(text(mount.get("Source")) + path[len(destination) :])
        return None

    def file(self, path: str) -> Path | None:
        """A path of the node; None where it lies outside the node's root, links followed."""
        real = Path(path).resolve()
        if real.is_relative_to(self.root.resolve()):
            return real
        leads_out = ".." in Path(path).parts or Path(path).is_relative_to(self.root)
        return None if leads_out else self._below("disk", path)

    def _below(self, directory: str, path: str) -> Path | None:
        top = self.root.resolve() / directory
        real = (top / path.lstrip("/")).resolve()
        return real if real.is_relative_to(top) else None
