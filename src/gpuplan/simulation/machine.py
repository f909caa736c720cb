"""What of a simulated node is not state: its name and where its files really lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuplan.simulation.document import text
from gpuplan.simulation.state import Container


@dataclass(frozen=True)
class Machine:
    """One simulated node; only what lies below `root` exists on it."""

    name: str
    root: Path

    def inside(self, container: Container, path: str) -> Path | None:
        """The real file or directory behind a path inside the container; None where no mount of the node has it."""
        mounts = sorted(container.mounts, key=lambda mount: len(text(mount.get("Destination"))), reverse=True)
        for mount in mounts:
            destination = text(mount.get("Destination")).rstrip("/")
            if path == destination or path.startswith(f"{destination}/"):
                return self.file(text(mount.get("Source")) + path[len(destination) :])
        return None

    def file(self, path: str) -> Path | None:
        """A path of the node; None where it lies outside the node's root, links followed."""
        real = Path(path).resolve()
        return real if real.is_relative_to(self.root.resolve()) else None
