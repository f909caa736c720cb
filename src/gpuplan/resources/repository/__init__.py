"""The model files of one Triton container on a node: brought by content, switched model by model.

A difference is never more than this: a file on the node has another content than the plan file's sources give.
"""

from gpuplan.resources.kind import Kind
from gpuplan.resources.repository.apply import apply_step, preflight
from gpuplan.resources.repository.desired import desired_repositories
from gpuplan.resources.repository.diff import diff
from gpuplan.resources.repository.read import read
from gpuplan.resources.repository.spec import with_former

REPOSITORY = Kind(
    "repository",
    ("repository",),
    desired_repositories,
    read,
    diff,
    apply_step,
    preflight=preflight,
    rolled_back=with_former,
)

__all__ = ["ROOM"]
