"""The kind `container`: its functions, and the probes that it reads."""

from __future__ import annotations

from gpuplan.resources.container.apply.apply import apply_step
from gpuplan.resources.container.cdi import CDI_KIND
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
    companion_kinds=(IMAGE_KIND, CDI_KIND),
    registry_images=lambda desired: images_to_look_up(
        [resource for resource in desired if resource.address.kind == "container"]
    ),
)
