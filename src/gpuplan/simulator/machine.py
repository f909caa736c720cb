"""What of a simulated node is not state: its name and where its files really lie.

A path that lies outside the node's own directory, such as /mnt/models, stands for `disk/mnt/models` in there; and what
is in a bucket, such as s3://models/prod, for `buckets/s3/models/prod`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gpuplan.simulator.document import text
from gpuplan.simulator.state import Container

_BUCKET = re.compile(r"^(?P<scheme>s3|gs|as)://(?:(?:https?://)?[^/:]+:\d+/)?(?P<rest>.+)$")


@dataclass(frozen=True)
class Machine:
    """One simulated node; only what lies below `root` exists on it."""

    name: str
    root: Path

    def inside(self, container: Container, path: str) -> Path | None:
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
