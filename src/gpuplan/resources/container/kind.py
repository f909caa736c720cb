"""The kind `container`: its four phases and what they ask a node for."""

from __future__ import annotations

from gpuplan.resources.container.apply.apply import apply_step
from gpuplan.resources.container.cdi import CDI_KIND as CDI
from gpuplan.resources.container.desired import containers
from gpuplan.resources.container.diff import diff
from gpuplan.resources.container.images import IMAGE_KIND, images_to_look_up
from gpuplan.resources.container.read import read
from gpuplan.resources.kind import Kind

CONTAINER = Kind(
    "container",
    ("docker", "gpu", "access", "toolkit", "host"),
    containers,
    read,
    diff,
    apply_step,
    also=(IMAGE_KIND, CDI),
    asks=lambda desired: images_to_look_up([each for each in desired if each.address.kind == "container"]),
)
