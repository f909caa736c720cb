"""The kind `container`: its four phases and what they ask a node for."""

from __future__ import annotations

from gpuplan.resources.container.apply.apply import apply_step
from gpuplan.resources.container.cdi import KIND as CDI
from gpuplan.resources.container.desired import containers
from gpuplan.resources.container.diff import diff
from gpuplan.resources.container.images import KIND
from gpuplan.resources.container.read import read
from gpuplan.resources.container.tags import asked
from gpuplan.resources.kind import Kind

CONTAINER = Kind(
    "container",
    ("docker", "gpu", "access", "toolkit", "host"),
    containers,
    read,
    diff,
    apply_step,
    also=(KIND, CDI),
    asks=lambda desired: asked([each for each in desired if each.address.kind == "container"]),
)
