"""Docker containers: what the plan states of them, compared field by field, and the images that they need."""

from gpuplan.kinds.container.apply import apply
from gpuplan.kinds.container.cdi import KIND as CDI
from gpuplan.kinds.container.diff import diff
from gpuplan.kinds.container.images import KIND
from gpuplan.kinds.container.read import read
from gpuplan.kinds.container.spec import containers
from gpuplan.kinds.container.tags import asked
from gpuplan.kinds.room import Room

ROOM = Room(
    "container",
    ("docker", "gpu", "access", "toolkit", "host"),
    containers,
    read,
    diff,
    apply,
    also=(KIND, CDI),
    asks=lambda desired: asked([each for each in desired if each.address.kind == "container"]),
)
